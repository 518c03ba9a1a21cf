//! `wxsim prepare`: rewrite an awkward archive once, so that training reads one chunk for one field.

use std::fs::TryLockError;
use std::io::IsTerminal;
use std::ops::Range;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};

use crate::commands::output;
use crate::config::{Config, Overrides};
use crate::error::{Context, Error, Result};
use crate::io::atomic::write_whole;
use crate::io::rewrite::{pieces, write_piece};
use crate::io::{FileInfo, VariableInfo, inspect_files};
use crate::variable::Variable;

/// Rewrite files whose chunks span many time steps, once, for training. A run that was stopped is continued by
/// giving the same command again.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The configuration whose [data] sources are rewritten
    config: PathBuf,
    /// The folder for the new files, and for a configuration that uses them
    #[arg(long, short)]
    out: PathBuf,
    /// Rewrite every source, also those that are quick to read as they are
    #[arg(long)]
    all: bool,
    /// Memory for the steps that are rewritten together [MB]; more is faster
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..))]
    memory: u32,
    #[command(flatten)]
    overrides: Overrides,
}

/// What the folder was begun with: a later run continues only that.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Begun {
    /// [MB]
    memory: u32,
    files: Vec<(PathBuf, String)>,
}

/// A file of a source that is to be rewritten.
struct Job {
    /// Where its pieces go.
    folder: PathBuf,
    /// Its place among the files of its source.
    number: usize,
    info: FileInfo,
    variable: VariableInfo,
}

pub fn run(args: &Args) -> Result<()> {
    let mut config = Config::load(&args.config, &args.overrides)?;
    if config.data.sources.is_empty() {
        return Err(Error::input(format!("{} names no sources", args.config.display()))
            .hint("list the files to rewrite under [[data.sources]]"));
    }
    make_folder(&args.out)?;
    let lock = std::fs::File::create(args.out.join(".lock"))
        .context(|| format!("cannot write into {}", args.out.display()))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(Error::input(format!("another run is preparing {}", args.out.display()))
                .hint("wait for it, or choose another folder with --out"));
        }
        Err(TryLockError::Error(error)) => {
            return Err(Error::run(format!("cannot lock {}", args.out.display())).caused_by(error));
        }
    }
    let out = std::fs::canonicalize(&args.out).context(|| format!("cannot find {}", args.out.display()))?;
    let root = config.data.root.clone().unwrap_or_default();
    let mut jobs = Vec::new();
    for (number, source) in config.data.sources.iter_mut().enumerate() {
        let folder = out.join(format!("{}-{}", number + 1, source.variable.replace('/', "_")));
        let found = find(&root.join(&source.glob), &source.variable, &folder)?;
        let awkward = found.iter().any(|job| job.variable.step_cost().is_some_and(|cost| cost.is_awkward()));
        if awkward || args.all {
            source.glob = format!("{}/*.nc", glob::Pattern::escape(&folder.display().to_string()));
            jobs.extend(found);
        } else {
            eprintln!("{} ({}) is quick to read and stays as it is", source.glob, source.variable);
        }
    }
    if jobs.is_empty() {
        eprintln!("nothing has to be rewritten; --all would do it nevertheless");
        return Ok(());
    }
    let memory = begin(&out, &jobs, args.memory)?;
    rewrite(&jobs, memory as usize * 1_000_000)?;

    let name = args.config.file_name().unwrap_or("prepared.toml".as_ref());
    let target = out.join(name);
    let text = config.to_toml()?;
    write_whole(&target, |file| {
        std::io::Write::write_all(file, text.as_bytes())
            .context(|| format!("cannot write {}", target.display()))
    })?;
    eprintln!("done; this configuration reads the new files:");
    output::print_line(&target.display().to_string())
}

/// The files of a source, by name, and the variable that it means in each.
fn find(pattern: &Path, wanted: &str, folder: &Path) -> Result<Vec<Job>> {
    let shown = pattern.display().to_string();
    let matches = glob::glob(&shown)
        .map_err(|error| Error::input(format!("'{shown}' is not a file pattern")).caused_by(error))?;
    let mut paths = matches
        .collect::<Result<Vec<PathBuf>, _>>()
        .map_err(|error| Error::input(format!("'{shown}': a folder cannot be read")).caused_by(error))?;
    paths.retain(|path| !path.is_dir());
    paths.sort();
    if paths.is_empty() {
        return Err(Error::input(format!("no file matches '{shown}'")).hint(
            "paths are relative to the folder where wxsim is started, or to data.root where it is set",
        ));
    }
    let known = Variable::find(wanted).map_or(wanted, |variable| variable.name);
    let mut jobs = Vec::new();
    let borrowed: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    for (number, info) in inspect_files(&borrowed).into_iter().enumerate() {
        let info = info?;
        let variable = info
            .variable(wanted)
            .or_else(|| info.variables.iter().find(|v| v.quantity_name == known))
            .cloned()
            .ok_or_else(|| {
                Error::input(format!("{} has no variable '{wanted}'", info.path.display()))
                    .hint("wxsim inspect lists the variables of a file")
            })?;
        jobs.push(Job { folder: folder.to_owned(), number, info, variable });
    }
    Ok(jobs)
}

/// Notes what is rewritten, or compares with what an earlier run noted. Returns the memory that cut the pieces [MB].
fn begin(out: &Path, jobs: &[Job], memory: u32) -> Result<u32> {
    let path = out.join("prepare.json");
    let files = jobs.iter().map(|job| (job.info.path.clone(), job.info.fingerprint.clone())).collect();
    let ours = Begun { memory, files };
    if !path.exists() {
        let text = serde_json::to_vec_pretty(&ours)
            .map_err(|error| Error::run("the list of files cannot be written").caused_by(error))?;
        write_whole(&path, |file| {
            std::io::Write::write_all(file, &text).context(|| format!("cannot write {}", path.display()))
        })?;
        return Ok(memory);
    }
    let other = || {
        Error::input(format!("{} was begun from other files, or they have changed since", out.display()))
            .hint("remove the folder, or choose another with --out")
    };
    let text = std::fs::read(&path).context(|| format!("cannot read {}", path.display()))?;
    let begun: Begun = serde_json::from_slice(&text).map_err(|error| other().caused_by(error))?;
    if begun.files != ours.files {
        return Err(other());
    }
    Ok(begun.memory)
}

fn rewrite(jobs: &[Job], memory: usize) -> Result<()> {
    let mut work: Vec<(&Job, Range<usize>, PathBuf)> = Vec::new();
    for job in jobs {
        make_folder(&job.folder)?;
        remove_leftovers(&job.folder)?;
        let stem = job.info.path.file_stem().unwrap_or_default().to_string_lossy();
        for steps in pieces(&job.variable, memory) {
            // Sorted by name, the pieces stand in the order of the files.
            let name = format!("{:05}-{stem}-{:07}.nc", job.number, steps.start);
            let target = job.folder.join(name);
            work.push((job, steps, target));
        }
    }
    let total = work.len();
    work.retain(|(_, _, target)| !target.exists());
    if work.len() < total {
        eprintln!("{} of {total} pieces are there already", total - work.len());
    }
    let bar = ProgressBar::new(total as u64).with_position((total - work.len()) as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} pieces, {eta} left: {msg}") {
        bar.set_style(style);
    }
    for (n, (job, steps, target)) in work.iter().enumerate() {
        let what = format!("{} {}", job.variable.name, job.info.path.display());
        if std::io::stderr().is_terminal() {
            bar.set_message(what);
        } else {
            eprintln!(
                "{}/{total} {what}, steps {} to {}",
                total - work.len() + n + 1,
                steps.start,
                steps.end - 1
            );
        }
        write_piece(&job.info, &job.variable, steps, target)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

fn make_folder(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).context(|| format!("cannot make the folder {}", folder.display()))
}

/// Removes what a killed run was writing; we hold the folder's lock.
fn remove_leftovers(folder: &Path) -> Result<()> {
    let cannot = || format!("cannot clear {}", folder.display());
    for entry in std::fs::read_dir(folder).context(cannot)? {
        let path = entry.context(cannot)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') && name.ends_with(".part") {
            std::fs::remove_file(&path).context(cannot)?;
        }
    }
    Ok(())
}
