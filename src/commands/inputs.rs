//! Files named on the command line take the place of a configuration's: which source each of them belongs to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Context, Error, Result};
use crate::field::Layout;
use crate::io::{FileInfo, VariableInfo, inspect_file};
use crate::preprocess::{DataPlan, DuplicatePolicy, MissingPolicy, SourcePlan};
use crate::time::LeadTime;
use crate::variable::{Quantity, Variable};

/// The plan with `files` instead of its own. A file belongs to every source whose variable it holds; where only the
/// name of a file can say its level, its name must fit the source's pattern.
pub fn with_files(plan: &DataPlan, files: &[PathBuf]) -> Result<DataPlan> {
    let infos = inspect(files)?;
    let mut used = vec![false; infos.len()];
    let mut sources = Vec::new();
    for source in &plan.sources {
        let mut found = false;
        for (info, used) in infos.iter().zip(&mut used) {
            if belongs(plan, source, info) {
                sources.push(of_file(source, info));
                (*used, found) = (true, true);
            }
        }
        if !found {
            return Err(no_file(source, rivals(plan, source), &infos));
        }
    }
    if let Some((info, _)) = infos.iter().zip(&used).find(|(_, used)| !**used) {
        return Err(belongs_nowhere(plan, info));
    }
    Ok(DataPlan { sources, ..plan.clone() })
}

/// The part of a plan that one file can give: its sources, all that they give there, and no other levels.
pub fn with_part(plan: &DataPlan, file: &Path) -> Result<DataPlan> {
    let info = inspect_file(file).context(|| format!("reading {}", file.display()))?;
    let mut sources: Vec<SourcePlan> = plan
        .sources
        .iter()
        .filter(|source| belongs(plan, source, &info))
        .map(|source| of_file(source, &info))
        .collect();
    if sources.is_empty() {
        return Err(belongs_nowhere(plan, &info));
    }
    for source in &mut sources {
        let there = variable_of(&info, &source.variable).map(|variable| variable.levels.as_slice());
        if let Some(there @ [_, ..]) = there {
            source.levels.retain(|level| there.iter().any(|l| (l - level).abs() < 1e-3));
        }
    }
    Ok(DataPlan {
        sources,
        quantities: Vec::new(),
        split: None,
        missing: MissingPolicy::Skip,
        ..plan.clone()
    })
}

/// Whether a file holds the variable of a source, at one of its levels at least.
fn belongs(plan: &DataPlan, source: &SourcePlan, info: &FileInfo) -> bool {
    let Some(variable) = variable_of(info, &source.variable) else { return false };
    if variable.levels.is_empty() {
        return rivals(plan, source) < 2 || name_fits(&source.glob, &info.path);
    }
    let has = |level: &f64| variable.levels.iter().any(|l| (l - level).abs() < 1e-3);
    source.levels.is_empty() || source.levels.iter().any(has)
}

/// How many sources share a variable.
fn rivals(plan: &DataPlan, source: &SourcePlan) -> usize {
    plan.sources.iter().filter(|other| other.variable == source.variable).count()
}

fn of_file(source: &SourcePlan, info: &FileInfo) -> SourcePlan {
    SourcePlan { glob: glob::Pattern::escape(&info.path.to_string_lossy()), ..source.clone() }
}

fn belongs_nowhere(plan: &DataPlan, info: &FileInfo) -> Error {
    let wanted: Vec<&str> = plan.sources.iter().map(|s| s.variable.as_str()).collect();
    Error::input(format!(
        "{} belongs to no source of the configuration, which wants {}",
        info.path.display(),
        wanted.join(", ")
    ))
    .hint("leave the file away, or see what it holds with: wxsim inspect")
}

/// A plan for files without a configuration: every quantity of `layout`, wherever it is.
pub fn from_files(layout: &Layout, step: LeadTime, files: &[PathBuf]) -> Result<DataPlan> {
    let infos = inspect(files)?;
    let mut sources = Vec::new();
    for info in &infos {
        for variable in info.variables.iter().filter(|v| !v.times.is_empty()) {
            let levels: Vec<f64> = layout
                .quantities
                .iter()
                .filter(|q| q.name == variable.quantity_name)
                .filter_map(|q| q.level)
                .collect();
            let wanted = layout.quantities.iter().any(|q| q.name == variable.quantity_name);
            if !wanted {
                continue;
            }
            if variable.levels.is_empty() && levels.len() > 1 {
                return Err(Error::input(format!(
                    "{} does not say on which level its '{}' lies",
                    info.path.display(),
                    variable.name
                ))
                .hint("give the configuration, whose sources say it"));
            }
            let there = |level: &f64| {
                variable.levels.is_empty() || variable.levels.iter().any(|l| (l - level).abs() < 1e-3)
            };
            sources.push(SourcePlan {
                glob: glob::Pattern::escape(&info.path.to_string_lossy()),
                variable: variable.name.clone(),
                levels: levels.into_iter().filter(there).collect(),
                rename: None,
                unit: None,
                period: None,
            });
        }
    }
    Ok(DataPlan {
        sources,
        quantities: layout.quantities.clone(),
        step,
        split: None,
        missing: MissingPolicy::Skip,
        duplicates: DuplicatePolicy::Error,
        grid: None,
    })
}

/// A plan for files without a configuration: height and wind at a pressure level [hPa], as far as they are there. A
/// variable that does not say its level is taken to lie on it.
pub fn of_level(files: &[PathBuf], level: f64) -> Result<DataPlan> {
    let infos = inspect(files)?;
    let mut layout: Option<Layout> = None;
    for (info, variable) in infos.iter().flat_map(|info| info.variables.iter().map(move |v| (info, v))) {
        let wanted = ["z", "u", "v"].contains(&variable.quantity_name.as_str()) && !variable.times.is_empty();
        let there = variable.levels.is_empty() || variable.levels.iter().any(|l| (l - level).abs() < 1e-3);
        if !wanted || !there {
            continue;
        }
        let quantity = Quantity::new(variable.quantity_name.clone(), Some(level));
        if variable.levels.is_empty() {
            eprintln!("note: {} does not say its level: taken for {quantity}", info.path.display());
        }
        let grid = variable.grid.clone();
        let layout = layout.get_or_insert_with(|| Layout { grid, quantities: Vec::new() });
        if !layout.quantities.contains(&quantity) {
            layout.quantities.push(quantity);
        }
    }
    let layout = layout.ok_or_else(|| {
        Error::input(format!("none of the files holds z, u or v at {level} hPa"))
            .hint("name another level with --set physics.level=..., or give a configuration with other data")
    })?;
    let times = infos.iter().flat_map(|info| info.variables.iter().flat_map(|v| v.times.windows(2)));
    let spacing = times.map(|pair| pair[1].since(pair[0]).seconds).fold(0, greatest_common_divisor);
    let step = if spacing > 0 { LeadTime { seconds: spacing } } else { LeadTime::from_hours(1) };
    from_files(&layout, step, files)
}

fn greatest_common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

fn inspect(files: &[PathBuf]) -> Result<Vec<Arc<FileInfo>>> {
    files
        .iter()
        .map(|path| inspect_file(path).map(Arc::new).context(|| format!("reading {}", path.display())))
        .collect()
}

/// By the file's own name, or else as the same known quantity.
fn variable_of<'a>(info: &'a FileInfo, name: &str) -> Option<&'a VariableInfo> {
    let canonical = Variable::find(name).map_or(name, |v| v.name);
    info.variable(name).or_else(|| info.variables.iter().find(|v| v.quantity_name == canonical))
}

/// Whether the name of a file, without its folder, fits that of a pattern.
fn name_fits(pattern: &str, path: &Path) -> bool {
    let pattern = Path::new(pattern).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    glob::Pattern::new(&pattern).is_ok_and(|p| p.matches(&name))
}

fn no_file(source: &SourcePlan, rivals: usize, infos: &[Arc<FileInfo>]) -> Error {
    let levels: Vec<String> = source.levels.iter().map(f64::to_string).collect();
    let level = if levels.is_empty() { String::new() } else { format!(" at {} hPa", levels.join(", ")) };
    let files: Vec<String> = infos.iter().map(|i| i.path.display().to_string()).collect();
    let error = Error::input(format!(
        "none of the files given holds '{}'{level}: {}",
        source.variable,
        files.join(", ")
    ));
    if rivals > 1 {
        error.hint(format!(
            "several sources share this variable; a file that does not say its level must be named like '{}'",
            source.glob
        ))
    } else {
        error.hint("give a file for every source of the configuration; wxsim inspect lists what a file holds")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data() -> Option<PathBuf> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
        if !folder.is_dir() {
            eprintln!("SKIPPED: no real data at {}", folder.display());
            return None;
        }
        Some(folder)
    }

    fn plan(sources: &[(&str, &str, Option<f64>)]) -> DataPlan {
        let source = |&(glob, variable, level): &(&str, &str, Option<f64>)| SourcePlan {
            glob: glob.into(),
            variable: variable.into(),
            levels: level.into_iter().collect(),
            rename: None,
            unit: None,
            period: None,
        };
        DataPlan {
            sources: sources.iter().map(source).collect(),
            quantities: Vec::new(),
            step: LeadTime::from_hours(24),
            split: None,
            missing: MissingPolicy::Error,
            duplicates: DuplicatePolicy::Error,
            grid: None,
        }
    }

    #[test]
    fn files_find_their_sources_by_variable_and_where_need_be_by_name() {
        let Some(data) = data() else { return };
        let europe = |name: &str| data.join("era-interim-europe").join(name);
        let sources = [
            ("old/msl*.nc", "msl", None),
            ("old/t850*.nc", "t", Some(850.0)),
            ("old/z500*.nc", "z", Some(500.0)),
        ];
        let files = ["z500_ei.nc", "mslp_ei.nc", "t850_ei.nc"].map(europe);
        let found = with_files(&plan(&sources), &files).unwrap();
        let names: Vec<bool> = ["mslp_ei.nc", "t850_ei.nc", "z500_ei.nc"]
            .iter()
            .zip(&found.sources)
            .map(|(name, source)| source.glob.ends_with(name))
            .collect();
        assert_eq!(names, [true; 3]);
        assert_eq!(found.sources[1].levels, [850.0]);

        let error = with_files(&plan(&sources), &files[..2]).unwrap_err();
        assert!(error.to_string().contains("'t' at 850 hPa"), "{error}");
        let error = with_files(&plan(&sources[..2]), &files).unwrap_err();
        assert!(error.to_string().contains("z500_ei.nc belongs to no source"), "{error}");
        // two levels of one variable: only the names of the files tell them apart
        let rivals = [("old/t850*.nc", "t", Some(850.0)), ("old/t500*.nc", "t", Some(500.0))];
        let error = with_files(&plan(&rivals), &[europe("t850_ei.nc")]).unwrap_err();
        assert!(error.advice().unwrap().contains("t500*.nc"), "{error}");
    }

    #[test]
    fn without_a_configuration_the_forecast_says_the_level() {
        let Some(data) = data() else { return };
        let file = data.join("era-interim-europe/t850_ei.nc");
        let grid = inspect_file(&file).unwrap().variables[0].grid.clone();
        let mut layout = Layout { grid, quantities: vec![Quantity::new("t", Some(850.0))] };
        let day = LeadTime::from_hours(24);
        let found = from_files(&layout, day, std::slice::from_ref(&file)).unwrap();
        assert_eq!(found.sources[0].levels, [850.0]);
        layout.quantities.push(Quantity::new("t", Some(500.0)));
        assert!(
            from_files(&layout, day, &[file])
                .unwrap_err()
                .to_string()
                .contains("does not say on which level")
        );
    }
}
