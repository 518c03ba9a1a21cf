//! NetCDF-4 files are first opened in a child process: a damaged one can crash, exhaust or stall the HDF5 library.
//!
//! The child is `wxsim index-file PATH...`, which limits its own memory and prints one line of JSON per file. When it
//! dies or stalls, the file it was busy with is to blame, and another child continues with the next one.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::info::FileInfo;
use super::inspect::index_here;
use super::survey::{self, Effort, Survey};
use crate::error::{Context, Error, Kind, Result, chain};

/// Memory that the child may address [bytes].
const MEMORY: u64 = 4 << 30;
/// Processor time that the child may use for one file [s], should the parent be gone.
const PROCESSOR_SECONDS: u64 = 600;
/// A longer answer is damage [bytes].
const LONGEST_ANSWER: u64 = 256 << 20;
/// Files of one child.
const BATCH: usize = 256;

/// Indexes NetCDF-4 files in child processes.
#[derive(Debug, Clone)]
pub struct Indexer {
    /// A `wxsim` program.
    pub program: PathBuf,
    /// Wall time for one file.
    pub time_limit: Duration,
}

/// What the child says about one file.
#[derive(Serialize, Deserialize)]
enum Answer {
    Index { version: String, info: Box<FileInfo> },
    Surveys(Vec<Survey>),
    Refused { message: String, hint: Option<String> },
}

impl Indexer {
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), time_limit: Duration::from_secs(60) }
    }

    /// This program; or, for a test that Cargo has put into a folder `deps`, the one beside that folder.
    pub fn find() -> Result<Self> {
        let this = std::env::current_exe().context(|| "cannot find the running program".to_string())?;
        let folder = this.parent().filter(|folder| folder.ends_with("deps")).and_then(Path::parent);
        let Some(folder) = folder else { return Ok(Self::new(this)) };
        let program = folder.join("wxsim");
        if !program.is_file() {
            return Err(Error::run(format!(
                "{}: there is no such program, which opens NetCDF-4 files",
                program.display()
            ))
            .hint("build it: cargo build"));
        }
        Ok(Self::new(program))
    }

    /// What is in a file.
    pub fn index(&self, path: &Path) -> Result<FileInfo> {
        self.index_many(&[path]).pop().unwrap_or_else(|| Err(self.silent(path)))
    }

    /// What is in each of some files.
    pub fn index_many(&self, paths: &[&Path]) -> Vec<Result<FileInfo>> {
        let mut results = Vec::with_capacity(paths.len());
        while results.len() < paths.len() {
            let batch = &paths[results.len()..paths.len().min(results.len() + BATCH)];
            let before = results.len();
            self.batch(batch, &mut results);
            if results.len() == before {
                results.push(Err(self.silent(batch[0])));
            }
        }
        results
    }

    /// Missing values and value ranges of a file's variables, read by a child.
    pub fn survey(&self, info: &FileInfo, effort: Effort) -> Result<Vec<Survey>> {
        let path = &info.path;
        let flag = match effort {
            Effort::Sample => "--survey",
            Effort::Everything => "--survey-all",
        };
        let mut running = self.start(&[path], &[flag])?;
        // Reading takes as long as the file is large: 1 MB/s is slower than any disk.
        let limit = self.time_limit.saturating_mul(10) + Duration::from_secs(info.size >> 20);
        let answer = running.answer(path, limit);
        running.end();
        match answer? {
            Answer::Surveys(surveys) => Ok(surveys),
            Answer::Refused { message, hint } => Err(refused(message, hint)),
            Answer::Index { .. } => Err(self.silent(path)),
        }
    }

    /// Goes as far as one child comes, and blames the file at which it fails.
    fn batch(&self, paths: &[&Path], results: &mut Vec<Result<FileInfo>>) {
        let mut running = match self.start(paths, &[]) {
            Ok(running) => running,
            Err(error) => return results.push(Err(error)),
        };
        for path in paths {
            match running.answer(path, self.time_limit) {
                Ok(Answer::Index { version, info }) if version == env!("CARGO_PKG_VERSION") => {
                    results.push(Ok(*info))
                }
                Ok(Answer::Refused { message, hint }) => results.push(Err(refused(message, hint))),
                Ok(_) => {
                    results.push(Err(Error::run(format!(
                        "{}: is another version of wxsim",
                        self.program.display()
                    ))
                    .hint("build or install the program again")));
                }
                Err(error) => {
                    results.push(Err(error));
                    break;
                }
            }
        }
        running.end();
    }

    fn silent(&self, path: &Path) -> Error {
        Error::run(format!("{}: {} gave no answer about it", path.display(), self.program.display()))
    }

    fn start(&self, paths: &[impl AsRef<Path>], flags: &[&str]) -> Result<Running> {
        let mut command = Command::new(&self.program);
        command.arg("index-file").args(flags).arg("--").args(paths.iter().map(AsRef::as_ref));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            command.spawn().context(|| format!("{}: cannot be started", self.program.display()))?;
        let (sender, lines) = channel();
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || {
                let mut output = BufReader::new(output);
                loop {
                    let mut line = Vec::new();
                    match output.by_ref().take(LONGEST_ANSWER).read_until(b'\n', &mut line) {
                        Ok(0) | Err(_) => break,
                        Ok(_) if sender.send(line).is_err() => break,
                        Ok(_) => {}
                    }
                }
            });
        }
        // HDF5 complains at length: the last lines are kept for the case that it dies.
        let (complaint, complaints) = channel();
        if let Some(errors) = child.stderr.take() {
            std::thread::spawn(move || {
                let mut errors = BufReader::new(errors);
                let mut tail = Vec::new();
                let mut piece = [0; 4096];
                while let Ok(count @ 1..) = errors.read(&mut piece) {
                    tail.extend_from_slice(&piece[..count]);
                    let excess = tail.len().saturating_sub(4096);
                    tail.drain(..excess);
                }
                let _ = complaint.send(String::from_utf8_lossy(&tail).into_owned());
            });
        }
        Ok(Running { child, lines, complaints })
    }
}

/// A child at work.
struct Running {
    child: Child,
    lines: Receiver<Vec<u8>>,
    complaints: Receiver<String>,
}

impl Running {
    /// The next answer, or why there is none.
    fn answer(&mut self, path: &Path, limit: Duration) -> Result<Answer> {
        let name = path.display();
        let damaged = "the file is damaged: copy or download it again";
        match self.lines.recv_timeout(limit) {
            Ok(line) => serde_json::from_slice(&line).map_err(|error| {
                Error::input(format!("{name}: the HDF5 library broke off")).caused_by(error).hint(damaged)
            }),
            Err(RecvTimeoutError::Timeout) => {
                let _ = self.child.kill();
                Err(Error::input(format!("{name}: the HDF5 library did not finish opening it in {limit:?}"))
                    .hint(format!("{damaged}; if the disk is only slow, copy the file to a faster one")))
            }
            Err(RecvTimeoutError::Disconnected) => {
                let how = match self.child.wait() {
                    Ok(status) => status.to_string(),
                    Err(error) => error.to_string(),
                };
                let complaint = self.complaints.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
                let last =
                    complaint.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("it said nothing");
                Err(Error::input(format!("{name}: the HDF5 library crashed on it ({how}; {})", last.trim()))
                    .hint(damaged))
            }
        }
    }

    fn end(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn refused(message: String, hint: Option<String>) -> Error {
    let error = Error::input(message);
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

/// The child's side: answers for each path in turn, after limiting its own means. With `effort`, reads the
/// data too and answers with [`Survey`]s.
pub fn answer_for(paths: &[PathBuf], effort: Option<Effort>) -> Result<()> {
    let limit = |resource: rlimit::Resource, most: u64| {
        let (_, hard) = resource.get().unwrap_or((0, rlimit::INFINITY));
        // A limit that cannot be set leaves the parent's clock, which is enough.
        let _ = resource.set(most.min(hard), hard);
    };
    limit(rlimit::Resource::AS, MEMORY);
    limit(rlimit::Resource::CORE, 0);
    if effort.is_none() {
        limit(rlimit::Resource::CPU, PROCESSOR_SECONDS.saturating_mul(paths.len() as u64));
    }
    let mut output = std::io::stdout().lock();
    for path in paths {
        let version = env!("CARGO_PKG_VERSION").to_string();
        let indexed = index_here(path);
        let answer = match effort {
            None => indexed.map(|info| Answer::Index { version, info: Box::new(info) }),
            Some(effort) => indexed.and_then(|info| survey::survey(&info, effort)).map(Answer::Surveys),
        };
        let answer = answer.unwrap_or_else(|error| Answer::Refused {
            message: chain(&error),
            hint: error.advice().map(str::to_string).filter(|_| error.kind() == Kind::Input),
        });
        let mut line = serde_json::to_vec(&answer).map_err(|error| {
            Error::run(format!("{}: cannot be described", path.display())).caused_by(error)
        })?;
        line.push(b'\n');
        output.write_all(&line).and_then(|()| output.flush()).context(|| "cannot answer".to_string())?;
    }
    Ok(())
}
