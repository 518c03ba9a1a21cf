//! From sources to the variables of files: globs expanded, files indexed in parallel, names and levels resolved.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use rayon::prelude::*;

use super::plan::{DataPlan, SourcePlan};
use super::statics::not_found;
use crate::error::{Context, Error, Result};
use crate::io::{self, FileInfo, Severity, VariableInfo};
use crate::time::LeadTime;
use crate::variable::{Quantity, Variable};

/// A variable of a file that a source asks for.
#[derive(Debug, Clone)]
pub struct Found {
    pub file: Arc<FileInfo>,
    /// With what the source says about it.
    pub variable: VariableInfo,
    /// Indices into `variable.levels`, one for each quantity.
    pub levels: Vec<usize>,
    pub quantities: Vec<Quantity>,
}

/// Two levels are the same when they differ by less than this [hPa].
const LEVEL_TOLERANCE: f64 = 1e-3;

/// Everything that the sources name, in their order, files by name. Sentences that are worth knowing go to `notes`.
pub fn find(plan: &DataPlan, notes: &mut Vec<String>) -> Result<Vec<Found>> {
    let paths: Vec<Vec<PathBuf>> = plan.sources.iter().map(expand).collect::<Result<_>>()?;
    let files = index(paths.iter().flatten())?;
    let mut found = Vec::new();
    for (source, paths) in plan.sources.iter().zip(&paths) {
        for info in paths.iter().map(|path| &files[path]) {
            let one = resolve(source, info)
                .context(|| format!("source '{}' ({})", source.glob, source.variable))?;
            note_problems(&one, notes);
            check_period(plan.step, &one)?;
            found.push(one);
        }
    }
    Ok(found)
}

/// The headers of all files. A few at a time in each thread: one after the other would wait for the disk and for the child
/// processes that index NetCDF-4 files.
fn index<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> Result<BTreeMap<&'a PathBuf, Arc<FileInfo>>> {
    let unique: Vec<&PathBuf> = paths.collect::<BTreeSet<_>>().into_iter().collect();
    let share = unique.len().div_ceil(rayon::current_num_threads()).max(1);
    let infos: Vec<Result<FileInfo>> = unique.par_chunks(share).flat_map_iter(io::inspect_files).collect();
    let both = unique.into_iter().zip(infos);
    both.map(|(path, info)| Ok((path, Arc::new(info?)))).collect()
}

fn expand(source: &SourcePlan) -> Result<Vec<PathBuf>> {
    let pattern = glob::glob(&source.glob)
        .map_err(|error| Error::input(format!("'{}' is not a file pattern", source.glob)).caused_by(error))?;
    let mut paths = Vec::new();
    for path in pattern {
        let path = path.map_err(|error| {
            Error::input(format!("'{}': a folder cannot be read", source.glob)).caused_by(error)
        })?;
        if !path.is_dir() {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        return Err(Error::input(format!("no file matches '{}'", source.glob)).hint(
            "paths are relative to the folder where wxsim is started, or to data.root where it is set",
        ));
    }
    paths.sort();
    Ok(paths)
}

fn resolve(source: &SourcePlan, info: &Arc<FileInfo>) -> Result<Found> {
    let path = &info.path;
    let by_name = || info.variables.iter().filter(|v| v.name == source.variable).collect::<Vec<_>>();
    let by_quantity = || {
        let canonical = Variable::find(&source.variable).map_or(source.variable.as_str(), |v| v.name);
        info.variables.iter().filter(|v| v.quantity_name == canonical).collect::<Vec<_>>()
    };
    let candidates = Some(by_name()).filter(|c| !c.is_empty()).unwrap_or_else(by_quantity);
    let mut variable = match candidates.as_slice() {
        [] => {
            let unread =
                info.problems.iter().find(|p| p.variable.as_deref() == Some(source.variable.as_str()));
            return Err(match unread {
                Some(problem) => Error::input(format!("{}: {}", path.display(), problem.sentence))
                    .hint(problem.remedy.clone()),
                None => not_found(path, &source.variable, info)
                    .hint("wxsim inspect lists the variables of a file"),
            });
        }
        [one] => (*one).clone(),
        several => {
            let names: Vec<&str> = several.iter().map(|v| v.name.as_str()).collect();
            return Err(Error::input(format!(
                "{}: '{}' may be any of {}",
                path.display(),
                source.variable,
                names.join(", ")
            ))
            .hint("give the source the file's own name for the variable"));
        }
    };
    variable
        .assume(source.rename.as_deref(), source.unit.as_deref(), source.period)
        .context(|| path.display().to_string())?;
    if variable.times.is_empty() {
        return Err(Error::input(format!(
            "{}: '{}' does not change with time",
            path.display(),
            variable.name
        ))
        .hint("static fields belong to [input]"));
    }
    let (levels, quantities) = levels(source, &variable).context(|| path.display().to_string())?;
    Ok(Found { file: info.clone(), variable, levels, quantities })
}

fn levels(source: &SourcePlan, variable: &VariableInfo) -> Result<(Vec<usize>, Vec<Quantity>)> {
    let name = &variable.quantity_name;
    if variable.levels.is_empty() {
        return match source.levels.as_slice() {
            [] => Ok((vec![0], vec![Quantity::new(name.clone(), None)])),
            [level] => Ok((vec![0], vec![Quantity::new(name.clone(), Some(*level))])),
            several => Err(Error::input(format!(
                "'{}' has no levels, but {} are asked for",
                variable.name,
                several.len()
            ))
            .hint("one level names that of a file which does not say it")),
        };
    }
    let all: Vec<f64> = variable.levels.clone();
    let wanted = if source.levels.is_empty() { &all } else { &source.levels };
    let mut indices = Vec::new();
    for level in wanted {
        let at = all.iter().position(|have| (have - level).abs() < LEVEL_TOLERANCE);
        indices.push(at.ok_or_else(|| {
            let have: Vec<String> = all.iter().map(f64::to_string).collect();
            Error::input(format!(
                "'{}' has no level {level} hPa, only {} hPa",
                variable.name,
                have.join(", ")
            ))
        })?);
    }
    let quantities = wanted.iter().map(|level| Quantity::new(name.clone(), Some(*level))).collect();
    Ok((indices, quantities))
}

/// What inspection found odd. Gaps, repeated dates and periods are not judged here: the catalogue looks at them itself,
/// across files and as the configuration says.
fn note_problems(found: &Found, notes: &mut Vec<String>) {
    let concerns = |name: &Option<String>| name.as_ref().is_none_or(|name| *name == found.variable.name);
    for problem in &found.file.problems {
        if problem.severity == Severity::Warning && concerns(&problem.variable) {
            let note = format!("{}: {} ({})", found.file.path.display(), problem.sentence, problem.remedy);
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
}

/// An accumulated field is a sum over a time that has to be known, and of which a step is a whole multiple.
fn check_period(step: LeadTime, found: &Found) -> Result<()> {
    let variable = &found.variable;
    if !variable.is_accumulated() {
        return Ok(());
    }
    let at = format!("{}: '{}'", found.file.path.display(), variable.name);
    match variable.period {
        None => Err(Error::input(format!("{at} is accumulated, but over which time the file does not say"))
            .hint("give the source its period, as in period = \"1h\"")),
        Some(period) if period.seconds <= 0 || step.seconds % period.seconds != 0 => Err(Error::input(
            format!("{at} is accumulated over {period}, and a step of {step} is not a whole number of that"),
        )
        .hint(format!("choose a step that is a multiple of {period}"))),
        Some(_) => Ok(()),
    }
}
