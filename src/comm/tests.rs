//! Every collective on threads, and every way in which a rank can let the others down.

use std::time::{Duration, Instant};

use super::*;
use crate::device::cpu::Cpu;
use crate::device::{ArenaPlan, Boundary, Channel, Device, Edge, Edges, HaloMap, Stagger};
use crate::error::{Error, Kind};

const LIMIT: Duration = Duration::from_secs(20);

/// A rank's device with one slot of each length, and its communicator.
struct Rank {
    device: Cpu<f64>,
    slots: Vec<Slot>,
    comm: Box<dyn Communicator<f64>>,
}

impl Rank {
    fn new(meeting: Box<dyn Meeting>, lengths: &[usize]) -> Result<Self> {
        let mut plan = ArenaPlan::default();
        let slots = lengths.iter().map(|&len| plan.slot(len)).collect();
        let mut device = Cpu::new(Some(1))?;
        device.allocate(&plan)?;
        Ok(Self { device, slots, comm: Box::new(Host::new(meeting)) })
    }

    fn put(&mut self, slot: usize, values: &[f64]) {
        self.device.upload(self.slots[slot], values);
    }

    fn get(&self, slot: usize) -> Vec<f64> {
        let mut values = vec![0.0; self.slots[slot].len()];
        self.device.download(self.slots[slot], &mut values);
        values
    }
}

/// What each of `size` ranks gets from `work`, and all leave together.
fn on<R: Send>(
    size: usize,
    lengths: &[usize],
    work: impl Fn(&mut Rank) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    run(vec![(); size], LIMIT, |(), meeting| {
        let mut rank = Rank::new(meeting, lengths)?;
        let found = work(&mut rank)?;
        rank.comm.close()?;
        Ok(found)
    })
}

#[test]
fn every_rank_gets_the_same_sum_and_the_same_mean() {
    for size in [1, 2, 3, 5] {
        // A number of numbers that no size divides, fewer than ranks, and none.
        for len in [7, 2, 0] {
            let found = on(size, &[len], |rank| {
                let own = rank.comm.rank() as f64;
                let values: Vec<f64> = (0..len).map(|i| (i as f64 + 0.1) * (own + 1.0)).collect();
                rank.put(0, &values);
                rank.comm.all_reduce(&mut rank.device, rank.slots[0], Reduce::Sum);
                let sum = rank.get(0);
                rank.put(0, &values);
                rank.comm.all_reduce(&mut rank.device, rank.slots[0], Reduce::Mean);
                let mut total = [own, 1.0];
                rank.comm.total(&mut total)?;
                Ok((sum, rank.get(0), total))
            });
            let found = found.unwrap();
            let ranks = (size * (size + 1) / 2) as f64;
            for (sum, mean, total) in &found {
                assert_eq!((sum, mean), (&found[0].0, &found[0].1), "the same bits on all ranks");
                for i in 0..len {
                    assert!((sum[i] - ranks * (i as f64 + 0.1)).abs() < 1e-12);
                    assert!((mean[i] - sum[i] / size as f64).abs() < 1e-12);
                }
                assert_eq!(*total, [ranks - size as f64, size as f64]);
            }
        }
    }
}

#[test]
fn parts_are_scattered_gathered_and_exchanged() {
    for size in [1, 2, 4] {
        let found = on(size, &[2 * size, 2, 2 * size], |rank| {
            let own = rank.comm.rank();
            // Number j of the part for rank p.
            let values: Vec<f64> = (0..2 * size).map(|i| (100 * own + i) as f64).collect();
            rank.put(0, &values);
            let Rank { device, slots, comm } = rank;
            comm.reduce_scatter(device, slots[0], slots[1], Reduce::Sum);
            comm.all_gather(device, slots[1], slots[2]);
            let (part, gathered) = (rank.get(1), rank.get(2));
            let Rank { device, slots, comm } = rank;
            comm.all_to_all(device, slots[0], slots[2]);
            let swapped = rank.get(2);
            let Rank { device, slots, comm } = rank;
            comm.broadcast(device, slots[1], size - 1);
            Ok((part, gathered, swapped, rank.get(1)))
        });
        let found = found.unwrap();
        let sum = |i: usize| (0..size).map(|rank| (100 * rank + i) as f64).sum::<f64>();
        for (own, (part, gathered, swapped, last)) in found.iter().enumerate() {
            assert_eq!(*part, [sum(2 * own), sum(2 * own + 1)]);
            assert_eq!(*gathered, (0..2 * size).map(sum).collect::<Vec<f64>>());
            let expected: Vec<f64> = (0..size)
                .flat_map(|r| [100 * r + 2 * own, 100 * r + 2 * own + 1])
                .map(|x| x as f64)
                .collect();
            assert_eq!(*swapped, expected);
            assert_eq!(*last, found[size - 1].0);
        }
    }
}

#[test]
fn neighbours_exchange_what_they_like() {
    // Around a ring: two slots to the next rank, one to the rank before.
    let found = on(3, &[1, 2, 1, 1, 2, 1], |rank| {
        let own = rank.comm.rank();
        let (next, before) = ((own + 1) % 3, (own + 2) % 3);
        let x = own as f64;
        rank.put(0, &[x]);
        rank.put(1, &[10.0 + x, 20.0 + x]);
        rank.put(2, &[30.0 + x]);
        let Rank { device, slots, comm } = rank;
        comm.exchange(
            device,
            &[(next, slots[0]), (before, slots[2]), (next, slots[1])],
            &[(before, slots[3]), (before, slots[4]), (next, slots[5])],
        );
        Ok((rank.get(3), rank.get(4), rank.get(5)))
    });
    for (own, (one, two, back)) in found.unwrap().iter().enumerate() {
        let (next, before) = (((own + 1) % 3) as f64, ((own + 2) % 3) as f64);
        assert_eq!((one, two), (&vec![before], &vec![10.0 + before, 20.0 + before]));
        assert_eq!(*back, [30.0 + next]);
    }
}

#[test]
fn a_group_splits_into_rows_and_columns() {
    let found = on(6, &[1], |rank| {
        let own = rank.comm.rank();
        let mut rows = rank.comm.split(&mut rank.device, own / 3)?;
        let mut columns = rank.comm.split(&mut rank.device, own % 3)?;
        assert_eq!(rows.tell(&format!("I am {own}"))?[1], format!("I am {}", own / 3 * 3 + 1));
        let mut sums = [[own as f64], [own as f64]];
        rows.total(&mut sums[0])?;
        columns.total(&mut sums[1])?;
        Ok((rows.rank(), rows.size(), columns.rank(), columns.size(), sums))
    });
    for (own, (row_rank, row_size, column_rank, column_size, sums)) in found.unwrap().into_iter().enumerate()
    {
        assert_eq!((row_rank, row_size, column_rank, column_size), (own % 3, 3, own / 3, 2));
        assert_eq!(sums, [[(9 * (own / 3) + 3) as f64], [(2 * (own % 3) + 3) as f64]]);
    }
}

/// The error of a run in which rank 1 of 3 does something else than the others.
fn failing(limit: Duration, of_one: impl Fn(&mut Rank) -> Result<()> + Sync) -> (Error, Duration) {
    let start = Instant::now();
    let error = run(vec![(); 3], limit, |(), meeting| {
        let mut rank = Rank::new(meeting, &[4])?;
        if rank.comm.rank() == 1 {
            of_one(&mut rank)?;
        }
        let Rank { device, slots, comm } = &mut rank;
        comm.all_reduce(device, slots[0], Reduce::Sum);
        rank.comm.close()
    });
    (error.unwrap_err(), start.elapsed())
}

#[test]
fn one_rank_that_fails_takes_the_others_down_with_its_reason() {
    let (error, took) = failing(LIMIT, |_| Err(Error::input("t2m.nc is torn").hint("copy it again")));
    let text = crate::error::chain(&error);
    assert_eq!(text, "rank 1: t2m.nc is torn");
    assert_eq!((error.kind(), error.advice()), (Kind::Input, Some("copy it again")));

    let (error, and) = failing(LIMIT, |_| panic!("index 7 of 3"));
    assert_eq!(crate::error::chain(&error), "rank 1: panicked: index 7 of 3");
    assert!(took + and < LIMIT, "nobody waits for the limit");
}

#[test]
fn a_rank_that_does_not_come_is_named() {
    let (error, _) = failing(Duration::from_millis(200), |_| {
        std::thread::sleep(Duration::from_millis(600));
        Ok(())
    });
    let text = error.to_string();
    assert_eq!(text, "rank 1 of 3 did not come to all_reduce of 4 numbers within 0.2 s");
    assert!(error.advice().unwrap().contains("parallel.time_limit"));
}

#[test]
fn ranks_that_want_different_things_are_told_so() {
    let (error, _) = failing(LIMIT, |rank| rank.comm.barrier());
    let text = error.to_string();
    assert!(text.contains("rank 0 came for all_reduce of 4 numbers, rank 1 for barrier"), "{text}");
}

#[test]
fn what_everybody_was_asked_to_stop_is_no_failure_of_one() {
    let stop = |_: (), meeting: Box<dyn Meeting>| -> Result<()> {
        // The others have long gone when the first one, which saves, comes to its end.
        if meeting.rank() == 0 {
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(Error::new(Kind::Interrupted, "stopped and saved"))
    };
    let error = run(vec![(); 3], LIMIT, stop).unwrap_err();
    assert_eq!((error.kind(), error.to_string()), (Kind::Interrupted, "stopped and saved".into()));
}

/// Images of whole numbers with anything in their halos, `[images, rows + 2 width, padded columns, channels]`.
fn images(map: &HaloMap) -> Vec<f64> {
    (0..map.images * map.cells * map.channels).map(|i| (i * i % 23) as f64).collect()
}

/// Rows `rows` of the interior, and a halo around them, of images of `padded` rows.
fn cut(whole: &[f64], padded: usize, width: usize, row: usize, rows: &std::ops::Range<usize>) -> Vec<f64> {
    let image = padded * row;
    let part = |image: &[f64]| image[rows.start * row..(rows.end + 2 * width) * row].to_vec();
    whole.chunks(image).flat_map(part).collect()
}

#[test]
fn halos_of_bands_are_those_of_the_whole_grid_forward_and_backward() {
    let pole = |row_on_pole| Edge::Pole { row_on_pole };
    let (west, south) = (Stagger::West, Stagger::South);
    let channel = |odd, stagger| Channel { odd, stagger };
    let plain = vec![Channel::centre(false); 3];
    let (rows, columns) = (9, 6);
    let edges = [
        (false, [Edge::Replicate; 2], plain.clone()),
        (true, [pole(true), pole(false)], vec![Channel::centre(true), Channel::centre(false)]),
        (true, [pole(false); 2], vec![channel(true, west), channel(true, south), channel(false, south)]),
    ];
    // Uneven, and one with no more rows than a halo.
    let cuts = [vec![0..4, 4..9], vec![0..3, 3..5, 5..9]];
    for (((periodic, ends, channels), bands), count) in edges
        .iter()
        .flat_map(|edge| cuts.iter().map(move |cut| (edge, cut)))
        .flat_map(|case| [(case, 1), (case, 3)])
    {
        let width = 2;
        let whole = Edges { periodic: *periodic, rows: *ends };
        let map = whole.map(count, rows, columns, width, channels).unwrap();
        let row = (columns + 2 * width) * channels.len();
        let x = images(&map);
        let mut plan = ArenaPlan::default();
        let slots = [plan.slot(x.len()), plan.slot(x.len())];
        let mut device = Cpu::<f64>::new(Some(1)).unwrap();
        device.allocate(&plan).unwrap();
        device.upload(slots[0], &x);
        device.halo_fill(&map, slots[0]);
        let mut filled = x.clone();
        device.download(slots[0], &mut filled);

        let found = run(bands.clone(), LIMIT, |rows, meeting| {
            let own = meeting.rank();
            let edge = |side: usize, last: usize| if own == last { ends[side] } else { Edge::Neighbour };
            let edges = Edges { periodic: *periodic, rows: [edge(0, 0), edge(1, bands.len() - 1)] };
            let map = edges.map(count, rows.len(), columns, width, channels)?;
            let mut plan = ArenaPlan::default();
            let len = map.images * map.cells * map.channels;
            let (x_slot, dx_slot, room) = (plan.slot(len), plan.slot(len), plan.slot(map.room()));
            let map = map.with_room(room);
            let mut device = Cpu::<f64>::new(Some(1))?;
            device.allocate(&plan)?;
            *device.company() = Some(Box::new(Others::new(Some(Box::new(Host::new(meeting))), None)));
            device.upload(x_slot, &cut(&x, 9 + 2 * width, width, row, &rows));
            device.halo_fill(&map, x_slot);
            let mut values = vec![0.0; len];
            device.download(x_slot, &mut values);
            // Every number of a gradient is of that band alone, and halos differ from those of others.
            let own_dx: Vec<f64> = (0..len).map(|i| ((i * i + own) % 19) as f64).collect();
            device.upload(dx_slot, &own_dx);
            device.halo_adjoint(&map, dx_slot);
            let mut back = vec![0.0; len];
            device.download(dx_slot, &mut back);
            device.company().take().map_or(Ok(()), |company| company.close())?;
            Ok((values, own_dx, back))
        });
        let found = found.unwrap();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let (mut forward, mut backward) = (0.0, 0.0);
        for (rows, (values, own_dx, back)) in bands.iter().zip(&found) {
            assert_eq!(
                *values,
                cut(&filled, 9 + 2 * width, width, row, rows),
                "{ends:?} {rows:?} of {count}"
            );
            forward += dot(values, own_dx);
            backward += dot(&cut(&interior(&map, &x, width, row), 9 + 2 * width, width, row, rows), back);
            let halo = width * row;
            if rows.start > 0 {
                assert!(back.chunks(back.len() / count).all(|image| image[..halo].iter().all(|&x| x == 0.0)));
            }
        }
        // The adjoint is the transpose: whole numbers, exact.
        assert_eq!(forward, backward, "{ends:?} {bands:?}");
    }
}

/// Without what the halo held before it was filled.
fn interior(map: &HaloMap, x: &[f64], width: usize, row: usize) -> Vec<f64> {
    let rows = map.cells * map.channels / row;
    let inner = |i: usize| {
        let (j, k) = (i / row % rows, i % row);
        let side = width * map.channels;
        (width..rows - width).contains(&j) && (side..row - side).contains(&k)
    };
    x.iter().enumerate().map(|(i, &x)| if inner(i) { x } else { 0.0 }).collect()
}
