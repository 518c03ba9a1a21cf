//! Every configuration that is committed loads strictly and makes valid plans.

use std::path::{Path, PathBuf};

use wxsim::config::model::Channels;
use wxsim::config::{Config, Overrides};
use wxsim::preprocess::{Forcing, StaticField};

fn committed() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs");
    // Folders hold what is around a training.
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.is_file());
    files.sort();
    files
}

#[test]
fn every_committed_configuration_makes_valid_plans() {
    let files = committed();
    assert!(!files.is_empty());
    for file in files {
        let name = file.display();
        assert_eq!(
            file.extension().and_then(|e| e.to_str()),
            Some("toml"),
            "{name} has no business in configs/"
        );
        let config = Config::load(&file, &Overrides::default()).unwrap_or_else(|e| panic!("{e:?}"));

        let data = config.data.plan().unwrap_or_else(|e| panic!("{name}: {e:?}"));
        // Physics forecasts from a single analysis, of which nothing can be learned.
        let is_single = file.ends_with("physics-global.toml");
        let split = data.split.filter(|s| s.validation.is_some() && s.test.is_some());
        assert!(split.is_some() || is_single, "{name} cannot be verified");
        assert!(config.forecast.lead.steps_of(data.step).unwrap() > 0, "{name}: forecast.lead");

        config.input.normalizer().unwrap_or_else(|e| panic!("{name}: {e:?}"));
        let inputs = config.input.inputs(&config.data).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        let channels = Channels {
            // Without the files, each source counts as one channel.
            prognostic: data.sources.len(),
            statics: inputs.statics.iter().map(|s| StaticField::channels(s.field).len()).sum(),
            forcings: inputs.forcings.iter().map(|&f| Forcing::channels(f).len()).sum(),
        };
        config.model.architecture(channels).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        config.train.plan(&config.loss).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        config.verify.plan().unwrap_or_else(|e| panic!("{name}: {e:?}"));
        config.physics.plan().unwrap_or_else(|e| panic!("{name}: {e:?}"));
        config.physics.calibration().unwrap_or_else(|e| panic!("{name}: {e:?}"));
    }
}

#[test]
fn what_is_resolved_from_a_committed_configuration_reads_back_as_itself() {
    for file in committed() {
        let config = Config::load(&file, &Overrides::default()).unwrap();
        let again = Config::from_text(&config.to_toml().unwrap(), &Overrides::default()).unwrap();
        assert_eq!(again, config, "{}", file.display());
    }
}

#[test]
fn the_committed_service_is_a_valid_one() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/ops/serve.toml");
    let config = Config::load(&file, &Overrides::default()).unwrap_or_else(|e| panic!("{e:?}"));
    config.serve.plan(|_| panic!("it says how far ahead it looks")).unwrap_or_else(|e| panic!("{e:?}"));
}
