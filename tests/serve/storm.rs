//! Good and bad files in a wild order, and a service that is killed again and again.

use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::centre::{Centre, forecasts};

/// SplitMix64, so that a storm can be made again.
struct Storm(u64);

impl Storm {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// Throws good and bad files at a service in a wild order, and kills it, for `days` days of analyses.
fn storm(days: std::ops::Range<usize>, seed: u64) {
    let quick = "retry = { attempts = 9, first = '1s', longest = '2s' }";
    let centre = Centre::new("warm", quick);
    let mut storm = Storm(seed);
    let mut left: Vec<usize> = days.clone().collect();
    let whole = |day: usize| std::fs::read(centre.folder().join(format!("inbox/day{day:03}.nc"))).unwrap();
    let mut service: Option<Child> = None;
    let mut kills = 0;
    while !left.is_empty() {
        let running =
            service.get_or_insert_with(|| centre.command(&["serve", "serve.toml"]).spawn().unwrap());
        // Mostly in order, sometimes not.
        let next = storm.below(3.min(left.len() as u64)) as usize;
        let next = if storm.below(4) > 0 { 0 } else { next };
        let day = left.remove(next);
        centre.bring_day("inbox", day);
        match storm.below(6) {
            0 => centre.bring("inbox", &format!("again{day}.nc"), day, |_, x| x),
            1 => centre.bring("inbox", &format!("nan{day}.nc"), day + 20, |_, _| f32::INFINITY),
            2 => {
                let bytes = whole(day);
                let length = storm.below(bytes.len() as u64) as usize;
                std::fs::write(centre.folder().join(format!("inbox/half{day}.nc")), &bytes[..length])
                    .unwrap();
            }
            3 => {
                let mut bytes = whole(day);
                for _ in 0..20 {
                    let at = storm.below(bytes.len() as u64) as usize;
                    bytes[at] = storm.below(256) as u8;
                }
                // Damage that is not seen would be another analysis: of a day that nobody else brings.
                std::fs::write(centre.folder().join(format!("inbox/zz{day}.grb")), &bytes).unwrap();
            }
            _ => {}
        }
        std::thread::sleep(Duration::from_millis(storm.below(400)));
        if storm.below(3) == 0 {
            running.kill().unwrap();
            running.wait().unwrap();
            (service, kills) = (None, kills + 1);
        }
    }
    if let Some(mut service) = service {
        service.kill().unwrap();
        service.wait().unwrap();
    }
    assert!(kills > 0);
    centre.serve_once("serve.toml");
    let cycles = centre.cycles("serve.toml");
    let unpublished: Vec<&Value> = cycles.iter().filter(|cycle| cycle["state"] != "published").collect();
    assert!(unpublished.is_empty(), "{unpublished:?}");
    // Every cycle has one file, and every file is whole and that of its cycle.
    let files = forecasts(&centre.folder().join("out/waves"));
    assert_eq!(files.len(), cycles.len());
    let manifest = std::fs::read(centre.folder().join("out/waves/manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(manifest["forecasts"].as_array().unwrap().len(), cycles.len());
    assert_eq!(std::fs::read_dir(centre.folder().join("out/waves/.staging")).unwrap().count(), 0);

    // An undisturbed service, given the same accepted files in the same order.
    centre.configure("calm.toml", "-calm", "warm", quick);
    for file in accepted(&centre.folder().join("state/ledger.sqlite")) {
        let name = Path::new(&file).file_name().unwrap().to_owned();
        std::fs::copy(centre.folder().join(&file), centre.folder().join("inbox-calm").join(name)).unwrap();
        centre.serve_once("calm.toml");
    }
    let (stormy, calm) = (centre.published(""), centre.published("-calm"));
    assert_eq!(stormy.keys().collect::<Vec<_>>(), calm.keys().collect::<Vec<_>>());
    assert!(stormy == calm, "the numbers differ");
}

/// The files that brought something, in the order in which they were accepted.
fn accepted(ledger: &Path) -> Vec<String> {
    let connection = rusqlite::Connection::open(ledger).unwrap();
    let mut query = connection.prepare("SELECT DISTINCT source, number FROM field ORDER BY number").unwrap();
    let rows = query.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

#[test]
fn killed_and_fed_with_rubbish_it_publishes_every_good_cycle_once_with_the_same_numbers() {
    storm(20..28, 1);
}

/// `WXSIM_SOAK_MINUTES=60 cargo test --release --test serve -- --ignored soak`
#[test]
#[ignore = "for as long as WXSIM_SOAK_MINUTES says"]
fn soak() {
    let minutes = std::env::var("WXSIM_SOAK_MINUTES").ok().and_then(|text| text.parse().ok()).unwrap_or(60.0);
    let begun = Instant::now();
    let mut seed = 100;
    while begun.elapsed() < Duration::from_secs_f64(60.0 * minutes) {
        storm(5..40, seed);
        seed += 1;
        eprintln!("{} storms in {:.0} s", seed - 100, begun.elapsed().as_secs_f64());
    }
}
