//! Cycles by the clock.

use serde_json::Value;

use crate::centre::Centre;

#[test]
fn a_timetable_waits_for_its_analysis_and_then_does_what_the_policy_says() {
    let schedule = |late: &str| {
        format!(
            "schedule = {{ cycles = ['00'], cutoff = '12h', wait = '13h', late = '{late}', bridge = '3d' }}"
        )
    };
    let centre = Centre::new("cold", &schedule("newest"));
    // Day 42 does not come.
    [40, 41, 43].into_iter().for_each(|day| centre.bring_day("inbox", day));
    // Day 41 is 2001-02-11. A second is three hours.
    let rehearse = ["serve", "serve.toml", "--rehearse", "2001-02-11T00", "--speed", "10800"];
    let done = |cycles: &[Value]| cycles.iter().filter(|cycle| cycle["state"] == "published").count() >= 2;
    centre.serve_until(&rehearse, done);
    let cycles = centre.cycles("serve.toml");
    assert_eq!(cycles[0]["start"], "cold");
    assert_eq!(cycles[1]["start"], "first guess, from the analyses up to 2001-02-11T00:00Z");
    assert_eq!(cycles[1]["late"], true);

    centre.configure("serve.toml", "2", "cold", &schedule("skip"));
    [40, 41].into_iter().for_each(|day| centre.bring_day("inbox2", day));
    let done = |cycles: &[Value]| cycles.iter().any(|cycle| cycle["state"] == "missing");
    let told = centre.serve_until(&rehearse, done);
    assert!(told.contains("no analysis came within 13h"), "{told}");
}
