//! The page that a verification ends with: whole, self-contained, and deaf to hostile names.

use wxsim::grid::Grid;
use wxsim::io::coastlines;
use wxsim::report::{CurvePoint, MapSet, Report, write_html};
use wxsim::time::{Calendar, InitTime, LeadTime, ValidTime};
use wxsim::variable::Quantity;
use wxsim::verify::{Difference, Score, Scores, Spectrum, WHOLE_GRID};

/// Errors that grow like those of a real model: a share of the climate's variation by lead.
fn scores(model: &str) -> Scores {
    let competitors = [model, "persistence", "damped persistence", "climatology"].map(String::from).to_vec();
    let quantities = [("msl", "Pa", 989.0), ("t850", "K", 3.82), ("z500", "m2 s-2", 1170.0)];
    let mut scores = Scores {
        competitors: competitors.clone(),
        climatology: "harmonic, fitted on 2000-01-01..2007-10-19".into(),
        initial_times: 803,
        test_span: "2008-10-19..2011-01-01".into(),
        regions: vec![WHOLE_GRID.into()],
        notes: vec!["Blocks of 10 days, 1000 resamples, seed 1.".into()],
        ..Scores::default()
    };
    for (quantity, units, spread) in quantities {
        for day in 1..=5 {
            let lead_hours = 24.0 * f64::from(day);
            let share = |n: usize| match n {
                0 => 1.02 * (1.0 - (-0.62 * f64::from(day)).exp()),
                1 => 1.2 * (1.0 - (-0.75 * f64::from(day)).exp()),
                2 => 0.97 * (1.0 - (-0.95 * f64::from(day)).exp()),
                _ => 1.0,
            };
            for (n, competitor) in competitors.iter().enumerate() {
                for weighted in [true, false] {
                    let metrics = [
                        ("rmse", units, share(n) * spread),
                        ("mae", units, share(n) * spread * 0.78),
                        ("bias", units, spread * 0.01 * (f64::from(day) - n as f64)),
                        ("acc", "1", (1.0 - share(n).powi(2) / 1.4).max(0.0)),
                        ("s1", "%", 90.0 * share(n).sqrt()),
                    ];
                    for (metric, units, value) in metrics {
                        let value = if weighted { value } else { value * 1.013 };
                        let undefined = metric == "acc" && n == 3;
                        scores.entries.push(Score {
                            competitor: competitor.clone(),
                            quantity: quantity.into(),
                            units: units.into(),
                            lead_hours,
                            region: WHOLE_GRID.into(),
                            weighted,
                            metric: metric.into(),
                            value: (!undefined).then_some(value),
                            low: (!undefined).then_some(value - 0.03 * value.abs()),
                            high: (!undefined).then_some(value + 0.04 * value.abs()),
                            initial_times: 803,
                        });
                    }
                    if n > 0 {
                        let change = (share(0) - share(n)) * spread;
                        scores.differences.push(Difference {
                            competitor: model.into(),
                            baseline: competitor.clone(),
                            quantity: quantity.into(),
                            lead_hours,
                            region: WHOLE_GRID.into(),
                            weighted,
                            metric: "rmse".into(),
                            skill: Some(1.0 - (share(0) / share(n)).powi(2)),
                            value: Some(change),
                            low: Some(change - 0.02 * spread),
                            high: Some(change + 0.02 * spread),
                        });
                    }
                }
            }
            for (n, name) in [model, "truth"].into_iter().enumerate() {
                let wavelength_km: Vec<f64> = (1..=12).map(|k| 2700.0 / f64::from(k)).collect();
                let blur = |l: f64| if n == 0 { (-f64::from(day) * 90.0 / l).exp() } else { 1.0 };
                let energy =
                    wavelength_km.iter().map(|l| 1e6 * (l / 2700.0).powi(3) * spread * blur(*l)).collect();
                scores.spectra.push(Spectrum {
                    competitor: name.into(),
                    quantity: quantity.into(),
                    lead_hours,
                    wavelength_km,
                    energy,
                });
            }
        }
    }
    scores
}

fn map_set(quantity: &str, day: i64) -> MapSet {
    let latitude = (0..21).map(|i| 30.0 + 1.5 * f64::from(i)).collect();
    let grid = Grid::new(latitude, (0..24).map(|i| -20.0 + 1.5 * f64::from(i)).collect()).unwrap();
    let quantity = Quantity::parse(quantity);
    let (base, wave, units) = match quantity.name.as_str() {
        "msl" => (101_300.0, 1400.0, "Pa"),
        "t" => (281.0, 7.0, "K"),
        _ => (55_000.0, 1500.0, "m2 s-2"),
    };
    let field = |shift: f64| {
        let place = |lat: &f64| {
            let waves = |lon: &f64| {
                let x = (lon - 6.0 * day as f64 - shift) / 9.0;
                (base + wave * (x.sin() * ((lat - 28.0) / 12.0).sin() - (lat - 45.0) / 18.0)) as f32
            };
            grid.longitude.iter().map(waves).collect::<Vec<f32>>()
        };
        grid.latitude.iter().flat_map(place).collect::<Vec<f32>>()
    };
    let (forecast, truth) = (field(0.0), field(1.3 * day as f64));
    let init = InitTime(ValidTime::parse("2009-01-22T12", Calendar::Standard).unwrap());
    MapSet {
        quantity,
        units: units.into(),
        grid,
        init,
        lead: LeadTime::from_hours(24 * day),
        forecast,
        truth,
    }
}

fn report(model: &str) -> Report {
    let curve = (1..=2000)
        .map(|step| CurvePoint {
            step,
            validation: step % 100 == 0,
            loss: Some(0.2 + 0.8 * (-(step as f64) / 400.0).exp() + 0.02 * (step as f64).sin()),
            learning_rate: Some(1e-3 * (1.0 - step as f64 / 2000.0)),
        })
        .collect();
    Report {
        title: model.into(),
        scores: scores(model),
        maps: ["msl", "t850", "z500"].iter().flat_map(|q| [1, 3].map(|day| map_set(q, day))).collect(),
        curve,
        provenance: vec![("Run".into(), format!("runs/{model}")), ("wxsim".into(), "0.1.0".into())],
        coastlines: coastlines::rings().unwrap(),
    }
}

/// Writes the page and reads it back. Set WXSIM_PICTURES to a folder to keep it.
fn page(name: &str, report: &Report) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = std::env::var("WXSIM_PICTURES").map_or(folder.path().to_owned(), Into::into).join(name);
    write_html(&path, report).unwrap();
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_page_holds_every_number_and_nothing_from_outside() {
    let report = report("europe");
    let html = page("report.html", &report);
    for outside in ["http:", "https:", "//", "<script", "<link", "@import", "url("] {
        let place = html.find(outside).filter(|_| outside != "//");
        assert!(place.is_none(), "'{outside}' at {place:?}");
    }
    let digits = |value: f64| {
        // four significant digits, as the page prints them
        let decimals = (3 - value.abs().log10().floor() as i32).max(0) as usize;
        format!("{value:.decimals$}").replace('-', "−")
    };
    for score in &report.scores.entries {
        for value in [score.value, score.low, score.high].into_iter().flatten().filter(|v| *v != 0.0) {
            assert!(html.contains(&digits(value)), "{value} of {score:?}");
        }
    }
    for difference in &report.scores.differences {
        assert!(html.contains(&digits(difference.value.unwrap())), "{difference:?}");
        assert!(html.contains(&format!("skill {:.3}", difference.skill.unwrap()).replace('-', "−")));
    }
    assert_eq!(html.matches("data:image/png;base64,").count(), 3 * 2 * 3);
    for word in
        ["europe beats", "Mean sea level pressure", "500 hPa geopotential height", "2009-01-25 12:00 UTC"]
    {
        assert!(html.contains(word), "{word}");
    }
    // pictures are base64, in which any three letters may occur
    let pictures: usize = html.split("base64,").skip(1).filter_map(|part| part.find('"')).sum();
    assert!(html.split("base64,").all(|part| !part[part.find('"').unwrap_or(0)..].contains("NaN")));
    assert!(pictures < 1_500_000, "18 maps of {pictures} letters");
}

#[test]
fn hostile_names_stay_text() {
    let evil = "</title><script>alert('x')</script>\"&<img src=x onerror=y>";
    let mut report = report(evil);
    report.scores.notes.push(evil.into());
    report.scores.climatology = evil.into();
    report.scores.test_span = evil.into();
    report.provenance.push((evil.into(), evil.into()));
    report.maps.truncate(1);
    report.maps[0].quantity = Quantity::new(evil, None);
    for score in report.scores.entries.iter_mut().take(40) {
        score.quantity = evil.into();
        score.region = if score.weighted { evil.into() } else { WHOLE_GRID.into() };
        score.metric = evil.into();
        score.units = evil.into();
    }
    let html = page("hostile.html", &report);
    for tag in ["<script", "<img src=x", "alert('x')", "</title>&lt;"] {
        assert!(!html.contains(tag), "{tag}");
    }
    assert!(html.contains("&lt;script&gt;"));
}

#[test]
fn an_empty_report_is_still_a_page() {
    let html = page("empty.html", &Report::default());
    assert!(html.starts_with("<!DOCTYPE html>") && html.trim_end().ends_with("</html>"));
}

#[test]
fn fields_that_do_not_fit_their_grid_are_an_error() {
    let mut report = report("europe");
    report.maps[0].truth.pop();
    let folder = tempfile::tempdir().unwrap();
    assert!(write_html(&folder.path().join("report.html"), &report).is_err());
}
