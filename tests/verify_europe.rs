//! The baselines' scores on real data, against figures computed independently of this program (see the README of the
//! data folder): unweighted RMSE over the last 804 days of daily ERA-Interim over Europe.

use std::path::Path;
use std::sync::Arc;

use wxsim::climatology::ClimatologyKind;
use wxsim::forecast::{Analyses, rollout};
use wxsim::preprocess::{
    Catalogue, DataPlan, DuplicatePolicy, MissingPolicy, SourcePlan, Span, Split, fit_climatology,
};
use wxsim::stepper::Stepper;
use wxsim::time::{Calendar, LeadTime, ValidTime, valid_time};
use wxsim::verify::{
    BootstrapPlan, ClimatologyForecast, Comparer, Competitor, DampedFit, DampedPersistence, Headline,
    Missing, Nyquist, Persistence, Role, ScorePlan, Scores, Statistics, summarise,
};

const DAY: LeadTime = LeadTime { seconds: 86_400 };
const LEADS: usize = 5;

fn span(start: &str, end: &str) -> Span {
    let date = |text| ValidTime::parse(text, Calendar::Standard).unwrap();
    Span::new(date(start), date(end)).unwrap()
}

/// Everything before the test is `train`, as the climatology of the table was fitted.
fn catalogue(folder: &Path) -> Arc<Catalogue> {
    let source = |name: &str, variable: &str, level: Option<f64>| SourcePlan {
        glob: folder.join(name).display().to_string(),
        variable: variable.into(),
        levels: level.into_iter().collect(),
        rename: None,
        unit: None,
        period: None,
    };
    let files = [("*msl*.nc", "msl", None), ("*t850*.nc", "t", Some(850.0)), ("*z500*.nc", "z", Some(500.0))];
    Catalogue::build(&DataPlan {
        sources: files.map(|(name, variable, level)| source(name, variable, level)).to_vec(),
        quantities: Vec::new(),
        step: DAY,
        split: Some(
            Split::new(span("2000-01-01", "2008-10-19"), None, Some(span("2008-10-19", "2011-01-01")))
                .unwrap(),
        ),
        missing: MissingPolicy::Error,
        duplicates: DuplicatePolicy::Error,
        grid: None,
    })
    .unwrap()
}

/// Forecasts from every day of the test span whose valid time lies in it too.
fn score<S: Stepper>(
    mut stepper: S,
    comparer: &Comparer,
    analyses: &mut Analyses,
    usual: &dyn Fn(ValidTime) -> Vec<f32>,
) -> Competitor {
    let test = span("2008-10-19", "2011-01-01");
    let mut statistics = Statistics::default();
    for init in analyses.usable().into_iter().filter(|init| test.contains(init.0)) {
        let frames = analyses.of(init).unwrap();
        for (n, state) in rollout(&mut stepper, &frames, LEADS).unwrap().enumerate().skip(1) {
            let valid = valid_time(init, DAY.times(n));
            if test.contains(valid) {
                let truth = analyses.truth(valid).unwrap();
                let comparison = comparer.compare(&state.unwrap(), &truth, Some(&usual(valid))).unwrap();
                statistics.add(init, DAY.times(n), comparison);
            }
        }
    }
    Competitor { name: stepper.info().name.clone(), role: Role::Baseline, statistics }
}

fn europe_scores(folder: &Path) -> Scores {
    let catalogue = catalogue(folder);
    let layout = catalogue.layout().clone();
    let training = catalogue.training().unwrap();
    let climatology = Arc::new(fit_climatology(&training, ClimatologyKind::Harmonic).unwrap());
    let mut fit = DampedFit::new(layout.clone(), climatology.clone(), DAY, LEADS);
    training.visit(|state| fit.add(state)).unwrap();
    let damped = Arc::new(fit.finish().unwrap());

    let persistence = Persistence::new(layout.clone(), DAY);
    let mut analyses = Analyses::new(catalogue.clone(), persistence.info()).unwrap();
    let comparer = Comparer::new(ScorePlan {
        layout: layout.clone(),
        regions: Vec::new(),
        missing: Missing::Propagate,
        nyquist: Nyquist::Once,
    });
    let usual = |valid| {
        let mut values = vec![0.0; layout.grid.points() * layout.channels()];
        climatology.evaluate(valid, &mut values).unwrap();
        values
    };
    let usual_forecast = ClimatologyForecast::new(layout.clone(), DAY, climatology.clone());
    let damped_forecast = DampedPersistence::new(layout.clone(), DAY, climatology.clone(), damped);
    let competitors = [
        score(persistence, &comparer, &mut analyses, &usual),
        score(usual_forecast, &comparer, &mut analyses, &usual),
        score(damped_forecast, &comparer, &mut analyses, &usual),
    ];
    let headline = Headline {
        climatology: Some("harmonic".into()),
        test_span: "2008-10-19..2011-01-01".into(),
        notes: Vec::new(),
    };
    let bootstrap = BootstrapPlan { resamples: 100, ..BootstrapPlan::default() };
    summarise(&comparer, &competitors, &bootstrap, &headline).unwrap()
}

#[test]
fn baselines_on_europe_score_what_an_independent_program_found() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/era-interim-europe");
    if !folder.is_dir() {
        eprintln!("SKIPPED: no real data at {}", folder.display());
        return;
    }
    let scores = europe_scores(&folder);
    assert_eq!(scores.initial_times, 803, "the first of 804 days to the last but one");
    // lead, quantity, then as the table has them: climatology, persistence, damped persistence
    let table = [
        (1, "msl", [989.0, 636.0, 603.0]),
        (1, "t850", [3.82, 2.92, 2.70]),
        (1, "z500", [1170.0, 702.0, 670.0]),
        (2, "msl", [989.0, 907.0, 807.0]),
        (2, "t850", [3.82, 3.96, 3.39]),
        (2, "z500", [1170.0, 1039.0, 932.0]),
        (3, "msl", [989.0, 1036.0, 884.0]),
        (3, "t850", [3.82, 4.41, 3.60]),
        (3, "z500", [1170.0, 1213.0, 1039.0]),
        (5, "msl", [989.0, 1180.0, 950.0]),
        (5, "t850", [3.82, 4.87, 3.75]),
        (5, "z500", [1170.0, 1413.0, 1128.0]),
    ];
    for (day, quantity, row) in table {
        for (name, expected) in ["climatology", "persistence", "damped persistence"].into_iter().zip(row) {
            let entry = scores.find(name, quantity, "rmse", 24.0 * f64::from(day), false).unwrap();
            let found = entry.value.unwrap();
            println!("{day} d {quantity:5} {name:20} {found:9.3} table {expected}");
            // The table is rounded to its last digit, and has the few forecasts that start just before the test span
            // and end in it: up to four of 803 more at 5 days.
            assert!((found - expected).abs() <= TOLERANCE * expected, "{day} d {quantity} {name}: {found}");
            let (low, high) = (entry.low.unwrap(), entry.high.unwrap());
            assert!(low < found && found < high);
        }
    }
}

const TOLERANCE: f64 = 0.0021;
