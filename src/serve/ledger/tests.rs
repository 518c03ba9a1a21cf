use super::*;
use crate::serve::schedule::init;

fn made() -> Made {
    Made {
        input: Some(1),
        first_lead: 2,
        seconds: 0.5,
        provider: "cpu".into(),
        start: "cold".into(),
        late: false,
        remarks: Vec::new(),
        distribution: None,
    }
}

fn staged(memory: Option<&str>) -> Staged {
    Staged {
        path: "a/.staging/x.nc".into(),
        digest: "d1".into(),
        memory: memory.map(String::from),
        zarr: None,
    }
}

#[test]
fn a_cycle_goes_its_way_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open(folder.path()).unwrap();
    let at = init(86_400);
    assert!(ledger.plan("a", at, None).unwrap());
    assert!(!ledger.plan("a", at, None).unwrap(), "a cycle is planned once");
    // It cannot be published before it was made.
    assert!(ledger.publish("a", at, "a/x.nc", 1, 1, None).is_err());
    ledger.begin("a", at).unwrap();
    assert!(ledger.begin("a", at).is_err(), "nor be made twice at once");
    ledger.intend("a", at, &staged(Some("m1")), &made()).unwrap();
    assert_eq!(ledger.intended("a", at).unwrap(), Some(staged(Some("m1"))));
    assert_eq!(ledger.predecessor("a", init(90_000)).unwrap(), None);
    ledger.publish("a", at, "a/x.nc", 10, 11, None).unwrap();
    let cycle = ledger.cycle("a", at).unwrap().unwrap();
    assert_eq!(cycle.state, CycleState::Published);
    assert_eq!((cycle.digest.as_deref(), cycle.size, cycle.attempts), (Some("d1"), Some(10), 1));
    assert_eq!(ledger.predecessor("a", init(90_000)).unwrap(), Some((at, "m1".into())));
    assert_eq!(ledger.predecessor("a", at).unwrap(), None, "only what is earlier");
    assert_eq!(ledger.predecessor("b", init(90_000)).unwrap(), None, "only of the same model");
    // Made again, it keeps its file until the new one is there.
    ledger.rerun("a", at).unwrap();
    assert!(ledger.rerun("a", at).is_err());
    assert_eq!(ledger.cycle("a", at).unwrap().unwrap().file.as_deref(), Some("a/x.nc"));
}

#[test]
fn a_clock_that_is_set_back_gives_back_what_it_took() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open(folder.path()).unwrap();
    let hours = |n: i64| init(n * 3600);
    (0..4).for_each(|n| assert!(ledger.plan("a", hours(6 * n), None).unwrap()));
    // The clock ran ahead: all but the first were given up, and the last was not even due.
    (1..4).for_each(|n| ledger.give_up("a", hours(6 * n), CycleState::Missing, "late").unwrap());
    let given_back = ledger.set_back("a", hours(13).0.seconds, 3 * 3600).unwrap();
    assert_eq!(given_back, 2);
    let state = |n: i64| ledger.cycle("a", hours(6 * n)).unwrap().map(|cycle| cycle.state);
    assert_eq!(state(1), Some(CycleState::Missing), "nobody would wait for it any longer");
    assert_eq!((state(2), state(3)), (Some(CycleState::Waiting), None));
    assert_eq!(ledger.set_back("a", hours(13).0.seconds, 3 * 3600).unwrap(), 0);
}

#[test]
fn what_is_written_is_there_when_the_ledger_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    {
        let mut ledger = Ledger::open(folder.path()).unwrap();
        ledger.plan("a", init(0), None).unwrap();
        ledger.begin("a", init(0)).unwrap();
        ledger.plan("a", init(3600), None).unwrap();
        ledger.give_up("a", init(3600), CycleState::Missing, "no analysis").unwrap();
    }
    let ledger = Ledger::existing(folder.path()).unwrap();
    let running = ledger.cycles_in(&[CycleState::Running]).unwrap();
    assert_eq!(running.len(), 1);
    assert_eq!(ledger.newest(Some("a"), 1).unwrap()[0].state, CycleState::Missing);
    assert_eq!(ledger.newest(Some("it's"), 1).unwrap(), []);
    assert_eq!(ledger.last_planned("a").unwrap(), Some(init(3600)));
}

#[test]
fn a_file_is_settled_with_its_fields() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open(folder.path()).unwrap();
    let file = SeenFile {
        path: "in/x.nc".into(),
        size: 3,
        modified: 4,
        verdict: Verdict::Accepted,
        reason: None,
        settled: 5,
    };
    let field = |quantity: &str, stored: &str| Field {
        quantity: quantity.into(),
        stored: stored.into(),
        digest: "d".into(),
        source: "in/x.nc".into(),
        complete: 5,
        number: 7,
    };
    let brought = [
        ("a".to_string(), 0, field("z500", "s0")),
        ("a".to_string(), 0, field("t850", "s0")),
        ("a".to_string(), 3600, field("z500", "s1")),
    ];
    ledger.settle(&file, &brought).unwrap();
    assert!(ledger.has_seen("in/x.nc", 3, 4).unwrap() && !ledger.has_seen("in/x.nc", 3, 5).unwrap());
    assert_eq!(ledger.whole("a", 2).unwrap(), [(0, 7)].into());
    assert_eq!(ledger.last_number().unwrap(), 7);
    assert_eq!(ledger.fields("a", 0, 3600).unwrap()[&0].len(), 2);
    assert_eq!(ledger.forget_fields("a", 3600).unwrap(), ["s0"]);
    assert_eq!(ledger.stored().unwrap().into_iter().collect::<Vec<_>>(), ["s1"]);
    assert_eq!(ledger.files(10).unwrap(), [file]);
}

#[test]
fn a_ledger_of_another_form_or_none_at_all_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Ledger::existing(folder.path()).is_err());
    let ledger = Ledger::open(folder.path()).unwrap();
    ledger.connection.pragma_update(None, "user_version", 7).unwrap();
    drop(ledger);
    assert!(Ledger::open(folder.path()).err().unwrap().to_string().contains("form 7"));
    std::fs::write(folder.path().join("ledger.sqlite"), vec![1; 5000]).unwrap();
    assert!(Ledger::open(folder.path()).is_err());
}

#[test]
fn a_ledger_of_the_first_form_is_brought_to_this_one() {
    let folder = tempfile::tempdir().unwrap();
    {
        let ledger = Ledger::open(folder.path()).unwrap();
        for column in ["zarr", "zarr_size", "zarr_modified", "staged_zarr"] {
            ledger.connection.execute(&format!("ALTER TABLE cycle DROP COLUMN {column}"), []).unwrap();
        }
        ledger.connection.pragma_update(None, "user_version", 1).unwrap();
    }
    let mut ledger = Ledger::open(folder.path()).unwrap();
    ledger.plan("a", init(0), None).unwrap();
    ledger.begin("a", init(0)).unwrap();
    let store = Store { digest: "z".into(), size: 3, modified: 4 };
    ledger.intend("a", init(0), &Staged { zarr: Some("z".into()), ..staged(None) }, &made()).unwrap();
    assert_eq!(ledger.intended("a", init(0)).unwrap().unwrap().zarr.as_deref(), Some("z"));
    ledger.publish("a", init(0), "a/x.nc", 1, 2, Some(&store)).unwrap();
    assert_eq!(ledger.cycle("a", init(0)).unwrap().unwrap().store, Some(store));
    ledger.forget_file("a", init(0)).unwrap();
    assert_eq!(ledger.cycle("a", init(0)).unwrap().unwrap().store, None);
}
