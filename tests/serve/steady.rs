//! A service that is never stopped: it takes no more memory and descriptors as time goes by.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::centre::Centre;
use crate::clock::FalseClock;
use crate::page::Watched;
use crate::storm::Dice;

/// Cycles until everything that is made once has been made: caches, pools of threads, arenas of the allocator.
const WARM_UP: usize = 20;

/// What a process holds.
#[derive(Debug, Clone, Copy)]
struct Holds {
    /// [KiB]
    memory: usize,
    descriptors: usize,
}

fn holds(process: u32) -> Holds {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let memory = line.split_whitespace().next().unwrap().parse().unwrap();
    let descriptors = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count();
    Holds { memory, descriptors }
}

/// Serves day after day with its page looked at, rubbish between the days, slow readers, and a clock that is set, for so
/// long and at least for so many days.
pub fn steady(centre: &Centre, long: Duration, least: usize) {
    let keep =
        "retry = { attempts = 9, first = '1s', longest = '2s' }\nkeep = { cycles = 10, analyses = '5d' }";
    centre.configure("steady.toml", "-steady", "warm", keep);
    let clock = FalseClock::new(centre.folder().join("clock-steady"));
    let arguments = ["steady.toml", "--set", "serve.inbox.remove=true"];
    let service = Watched::start(centre, &arguments, |command| {
        clock.iter().for_each(|clock| clock.wear(command));
    });
    let (begun, mut dice) = (Instant::now(), Dice(7));
    let (mut slow, mut samples) = (Vec::new(), Vec::new());
    let mut day = 0;
    while day < least || begun.elapsed() < long {
        let name = format!("day{day:05}.nc");
        centre.bring("inbox-steady", &name, day, |_, x| x);
        service.wait_for(day);
        match dice.below(8) {
            0 => centre.bring("inbox-steady", "again.nc", day, |_, x| x),
            1 => centre.bring("inbox-steady", "nan.nc", day + 2, |_, _| f32::NAN),
            2 => std::fs::write(centre.folder().join("inbox-steady/text.nc"), format!("{day}")).unwrap(),
            3 => {
                let mut stream = TcpStream::connect(&service.address).unwrap();
                let asked = if dice.below(2) == 0 { "GET / HTTP/1.1\r\nHost: a\r\n\r\n" } else { "GET" };
                stream.write_all(asked.as_bytes()).unwrap();
                slow.push((Instant::now(), stream));
            }
            4 => clock.iter().for_each(|clock| clock.set(dice.below(400_000) as i64 - 200_000)),
            _ => {}
        }
        for path in ["/", "/map/waves.png", "/readyz"] {
            assert!(day < 2 || service.ask(path).0 == 200, "{path}: {}", service.log());
        }
        slow.retain(|(since, _)| since.elapsed() < Duration::from_secs(20));
        samples.push(holds(service.process.id()));
        day += 1;
    }
    assert_eq!(service.log().matches("is published as").count(), day - 1, "a cycle was published twice");
    // Those that are slow are sent away within half a minute; here they leave.
    drop(slow);
    let samples = &samples[WARM_UP.min(samples.len() / 2)..];
    let (early, late) = samples.split_at(samples.len() / 2);
    let median = |of: &[Holds], what: fn(&Holds) -> usize| {
        let mut all: Vec<usize> = of.iter().map(what).collect();
        all.sort_unstable();
        all[all.len() / 2]
    };
    let memory = [early, late].map(|half| median(half, |holds| holds.memory));
    let descriptors = [early, late].map(|half| median(half, |holds| holds.descriptors));
    println!(
        "{day} days in {:.0} s: {} and {} KiB, {} and {} descriptors in the two halves",
        begun.elapsed().as_secs_f64(),
        memory[0],
        memory[1],
        descriptors[0],
        descriptors[1]
    );
    // A connection or a child more or less may be under way; a leak of one in a hundred cycles would show in an hour.
    assert!(descriptors[1] <= descriptors[0] + 4, "{descriptors:?}");
    // The allocator keeps some MiB here and there. The page of the ledger and the maps are bounded by what is kept.
    assert!(memory[1] <= memory[0] + (8 << 10), "{memory:?} KiB");
}

#[test]
fn memory_and_descriptors_stay_what_they_are() {
    steady(&Centre::new("warm", ""), Duration::ZERO, 60);
}
