//! Halo cells are copies of interior cells; the adjoint carries their gradients home.

use super::super::{HaloMap, Real};
use super::threads::Threads;

/// Below this many numbers a second thread costs more than it saves.
const WORTH_A_THREAD: usize = 1 << 14;

pub(super) fn fill<T: Real>(threads: &Threads, map: &HaloMap, x: &mut [T]) {
    each_image(threads, map, x, |image| {
        for part in map.parts.iter() {
            let (first, count) = (part.channels.start, part.channels.len());
            for &(to, from, across) in &part.copies {
                let (to, from) = (to as usize * map.channels + first, from as usize * map.channels + first);
                image.copy_within(from..from + count, to);
                if across {
                    for (value, &odd) in image[to..to + count].iter_mut().zip(&part.odd) {
                        if odd {
                            *value = -*value;
                        }
                    }
                }
            }
            for &to in &part.zeros {
                image[to as usize * map.channels + first..][..count].fill(T::default());
            }
        }
    });
}

pub(super) fn adjoint<T: Real>(threads: &Threads, map: &HaloMap, dx: &mut [T]) {
    each_image(threads, map, dx, |image| {
        for part in map.parts.iter() {
            let (first, count) = (part.channels.start, part.channels.len());
            for &(to, from, across) in &part.copies {
                let (to, from) = (to as usize * map.channels + first, from as usize * map.channels + first);
                for channel in 0..count {
                    let gradient = std::mem::take(&mut image[to + channel]);
                    image[from + channel] += if across && part.odd[channel] { -gradient } else { gradient };
                }
            }
            for &to in &part.zeros {
                image[to as usize * map.channels + first..][..count].fill(T::default());
            }
        }
    });
}

fn each_image<T: Real>(threads: &Threads, map: &HaloMap, x: &mut [T], work: impl Fn(&mut [T]) + Sync + Send) {
    let len = map.cells * map.channels;
    assert_eq!(x.len(), map.images * len, "the halo map is for {} images of {len}", map.images);
    let copied: usize = map.parts.iter().map(|part| part.copies.len() * part.channels.len()).sum();
    assert!(
        map.parts.iter().all(|part| part.odd.len() == part.channels.len()),
        "one parity for each channel"
    );
    if copied * map.images < WORTH_A_THREAD {
        x.chunks_mut(len).for_each(work);
    } else {
        threads.chunks(x, len, |_, image| work(image));
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::HaloPart;
    use super::*;

    /// A row of three cells with one halo cell on each side; the left one wraps, the right one is a mirror.
    fn map() -> HaloMap {
        HaloMap {
            images: 2,
            cells: 5,
            channels: 2,
            parts: [HaloPart {
                channels: 0..2,
                odd: vec![false, true],
                copies: vec![(0, 3, false), (4, 3, true)],
                zeros: Vec::new(),
            }]
            .into(),
            seam: None,
        }
    }

    #[test]
    fn fill_copies_and_turns_odd_channels_across_a_pole() {
        let mut x: Vec<f32> = (0..20).map(|i| i as f32).collect();
        fill(&Threads::new(Some(2)).unwrap(), &map(), &mut x);
        assert_eq!(x[..10], [6.0, 7.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 6.0, -7.0]);
        assert_eq!(x[18..], [16.0, -17.0]);
    }

    #[test]
    fn adjoint_is_the_transpose_of_fill() {
        let threads = Threads::new(Some(1)).unwrap();
        let x: Vec<f64> = (0..20).map(|i| f64::from(i * i % 7)).collect();
        let y: Vec<f64> = (0..20).map(|i| f64::from(i * 5 % 11)).collect();
        let (mut filled, mut back) = (x.clone(), y.clone());
        fill(&threads, &map(), &mut filled);
        adjoint(&threads, &map(), &mut back);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        // Whole numbers: exact.
        assert_eq!(dot(&filled, &y), dot(&x, &back));
        assert_eq!((back[0], back[8]), (0.0, 0.0));
    }
}
