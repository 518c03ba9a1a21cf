//! The forecasts that a verification judges: files, the network of a run, or the physics.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::field::Layout;
use crate::io::forecast_file;
use crate::preprocess::Catalogue;
use crate::runner::NetworkStepper;
use crate::stepper::Stepper;
use crate::time::{InitTime, LeadTime};

/// The forecasts to judge.
pub struct Candidates {
    pub network: Option<NetworkStepper>,
    pub sets: Vec<ForecastSet>,
    /// Every quantity that one of them forecasts.
    pub layout: Arc<Layout>,
    pub step: LeadTime,
    /// The longest lead that is scored.
    pub lead: LeadTime,
    pub input_frames: usize,
}

/// Forecast files of one maker: one folder.
pub struct ForecastSet {
    pub name: String,
    pub files: BTreeMap<InitTime, PathBuf>,
    pub layout: Arc<Layout>,
    /// Of all files, after the analysis.
    pub leads: BTreeSet<LeadTime>,
}

impl ForecastSet {
    fn longest(&self) -> LeadTime {
        self.leads.last().copied().unwrap_or_default()
    }
}

impl Candidates {
    /// `wanted` is the lead of the command line. Where there is neither a network nor a file, the physics may be what is
    /// judged, if it is `among_baselines` and a configuration says on which data.
    pub fn find(
        network: Option<NetworkStepper>,
        files: &[PathBuf],
        config: Option<&Config>,
        wanted: Option<LeadTime>,
        among_baselines: bool,
    ) -> Result<Self> {
        let sets = forecast_sets(files)?;
        let (mut layout, step, input_frames) = match (&network, sets.first(), config) {
            (Some(network), _, _) => {
                let info = network.info();
                (info.layout.clone(), info.step, info.input_frames)
            }
            (None, Some(set), _) => {
                let shortest = sets.iter().filter_map(|s| s.leads.first()).min();
                (set.layout.clone(), shortest.copied().unwrap_or_default(), 1)
            }
            (None, None, Some(config)) if among_baselines => {
                let data = config.data.plan()?;
                (Catalogue::build(&data)?.layout().clone(), data.step, 1)
            }
            (None, None, _) => {
                return Err(Error::input("there is nothing to verify")
                    .hint("name forecast files, or a run with --model, or judge --baseline physics itself"));
            }
        };
        for set in &sets {
            layout = joined(layout, &set.layout);
        }
        let lead = lead(network.is_some(), &sets, config, wanted, step)?;
        Ok(Self { network, sets, layout, step, lead, input_frames })
    }

    /// Whether the physics is not a baseline but what is judged.
    pub fn is_physics(&self) -> bool {
        self.network.is_none() && self.sets.is_empty()
    }

    /// The leads at which one of them has a forecast.
    pub fn leads(&self) -> BTreeSet<LeadTime> {
        let mut leads: BTreeSet<LeadTime> = self.sets.iter().flat_map(|set| set.leads.clone()).collect();
        if self.sets.is_empty() || self.network.is_some() {
            leads.extend((1..).map(|n| self.step.times(n)).take_while(|lead| *lead <= self.lead));
        }
        leads
    }
}

/// The quantities of both, the first's first.
fn joined(layout: Arc<Layout>, other: &Layout) -> Arc<Layout> {
    let more: Vec<_> = other.quantities.iter().filter(|q| !layout.quantities.contains(q)).cloned().collect();
    if more.is_empty() {
        return layout;
    }
    let mut joined = (*layout).clone();
    joined.quantities.extend(more);
    Arc::new(joined)
}

/// The longest lead to score; what the forecasts do not reach is refused or said.
fn lead(
    network: bool,
    sets: &[ForecastSet],
    config: Option<&Config>,
    wanted: Option<LeadTime>,
    step: LeadTime,
) -> Result<LeadTime> {
    let longest = sets.iter().map(ForecastSet::longest).max();
    let lead = match (wanted, longest, config) {
        (Some(lead), _, _) => lead,
        (None, Some(longest), _) => longest,
        (None, None, Some(config)) => config.forecast.lead,
        (None, None, None) => step,
    };
    if lead < step {
        return Err(Error::input(format!("a lead of {lead} is shorter than a step of {step}")));
    }
    // Only leads that all competitors have are scored.
    if let Some(short) = sets.iter().filter(|set| set.longest() < lead).min_by_key(|set| set.longest()) {
        let reach = short.longest();
        if !network && longest.is_some_and(|longest| longest < lead) {
            return Err(Error::input(format!(
                "--lead {lead} lies beyond the forecasts, which end at {reach}"
            ))
            .hint("ask for a shorter lead, or leave --lead away"));
        }
        eprintln!("note: the forecasts of {} end at {reach}: no lead beyond is scored", short.name);
    }
    Ok(lead)
}

/// Sorts forecast files by folder and initial time, reading nothing but their heads.
fn forecast_sets(paths: &[PathBuf]) -> Result<Vec<ForecastSet>> {
    let mut sets: BTreeMap<PathBuf, ForecastSet> = BTreeMap::new();
    for path in paths {
        let file = forecast_file::open(path)?;
        let ahead: BTreeSet<LeadTime> = file.leads().iter().copied().filter(|l| l.seconds > 0).collect();
        if ahead.is_empty() {
            return Err(Error::input(format!("{} looks nowhere ahead of its initial time", path.display())));
        }
        let folder = path.parent().unwrap_or(path).to_owned();
        let set = sets.entry(folder).or_insert_with(|| ForecastSet {
            name: String::new(),
            files: BTreeMap::new(),
            layout: file.layout().clone(),
            leads: BTreeSet::new(),
        });
        set.layout = joined(set.layout.clone(), file.layout());
        set.leads.extend(ahead);
        if let Some(twin) = set.files.insert(file.init(), path.clone()) {
            return Err(Error::input(format!(
                "{} and {} both start at {}",
                twin.display(),
                path.display(),
                file.init()
            ))
            .hint("keep the forecasts of different models in different folders"));
        }
    }
    let alone = sets.len() == 1;
    Ok(sets
        .into_iter()
        .map(|(folder, set)| {
            let last = folder.file_name().map(|n| n.to_string_lossy().into_owned());
            let name =
                if alone { "forecast".into() } else { last.unwrap_or_else(|| folder.display().to_string()) };
            ForecastSet { name, ..set }
        })
        .collect())
}
