//! A second model shadows the first.

use crate::centre::Centre;

#[test]
fn a_better_canary_takes_the_place_of_the_model_and_a_worse_one_does_not() {
    let centre = Centre::new("cold", "canary = { of = 'waves', run = 'better', share = 1.0, block = '1d' }");
    // The model that is served has seen one epoch; this one has seen enough.
    let output =
        centre.place.train("better", &["--set", "train.rollout=[[30, 1]]", "--set", "train.patience=100"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (10..40).for_each(|day| centre.bring_day("inbox", day));
    let told = centre.serve_once("serve.toml");
    assert!(told.contains("waves is served by better from now on: its squared error is smaller"), "{told}");
    assert!(centre.folder().join("out/waves.canary.better/latest.nc").exists());
    // It stays so after a restart, and a canary that is judged does not come again.
    centre.bring_day("inbox", 40);
    let told = centre.serve_once("serve.toml");
    assert!(told.contains("has been promoted"), "{told}");
    let path = centre.folder().join("out/waves/20010210T0000.nc");
    let origin = match netcdf::open(&path).unwrap().attribute("wxsim_origin").unwrap().value().unwrap() {
        netcdf::AttributeValue::Str(text) => text,
        other => panic!("{other:?}"),
    };
    assert!(origin.contains("better/"), "{origin}");

    let worse = "canary = { of = 'waves', run = 'run', share = 1.0, block = '1d' }";
    centre.configure("serve.toml", "4", "cold", worse);
    let text = std::fs::read_to_string(centre.folder().join("serve.toml")).unwrap();
    let text = text.replace("name = 'waves'\nrun = 'run'", "name = 'waves'\nrun = 'better'");
    std::fs::write(centre.folder().join("serve.toml"), text).unwrap();
    (10..40).for_each(|day| centre.bring_day("inbox4", day));
    let told = centre.serve_once("serve.toml");
    assert!(told.contains("run does not take the place of waves: its squared error is larger"), "{told}");
}
