//! Decodes files that arrived, each in a process of its own, one after the other.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};

use super::decode::{Answer, Decoded, Refusal};
use super::inbox::Arrived;
use super::ledger::now;
use crate::error::{Context, Error, Result};

/// A longer answer is damage [bytes].
const LONGEST_ANSWER: u64 = 64 << 20;

/// Starts the process that decodes.
#[derive(Debug, Clone)]
pub struct Decoder {
    /// A `wxsim` program.
    pub program: PathBuf,
    /// For one file and one model.
    pub time_limit: Duration,
}

/// A model, and the run that says how its files are to be understood.
#[derive(Debug, Clone)]
pub struct Reader {
    pub model: String,
    pub run: PathBuf,
}

/// What a file gave, for each model.
#[derive(Debug)]
pub struct Intake {
    pub arrived: Arrived,
    /// Where the decoded files are.
    pub folder: PathBuf,
    pub found: Vec<(String, Result<Vec<Decoded>, Refusal>)>,
}

/// Decodes what comes from `files` until that ends.
pub fn run(
    decoder: &Decoder,
    readers: &[Reader],
    folder: &Path,
    files: &Receiver<Arrived>,
    stop: &Arc<AtomicBool>,
    done: &Sender<Intake>,
) {
    // A process that a killed service left behind may still write into the folder that was its own.
    let begun = now();
    for (number, arrived) in files.iter().enumerate() {
        let folder = folder.join(format!("{begun}-{number}"));
        let decode = |reader: &Reader| {
            let found = decoder.decode(&arrived.path, reader, &folder.join(&reader.model), stop);
            (reader.model.clone(), found)
        };
        let found = readers.iter().map(decode).collect();
        if stop.load(Ordering::SeqCst) || done.send(Intake { arrived, folder, found }).is_err() {
            return;
        }
    }
}

impl Decoder {
    fn decode(
        &self,
        path: &Path,
        reader: &Reader,
        folder: &Path,
        stop: &AtomicBool,
    ) -> Result<Vec<Decoded>, Refusal> {
        self.answer(path, reader, folder, stop).map_err(|error| Refusal::of(&error))?
    }

    /// What the process says; an error where it says nothing.
    fn answer(
        &self,
        path: &Path,
        reader: &Reader,
        folder: &Path,
        stop: &AtomicBool,
    ) -> Result<Result<Vec<Decoded>, Refusal>> {
        std::fs::create_dir_all(folder).context(|| format!("cannot make {}", folder.display()))?;
        let mut command = Command::new(&self.program);
        command
            .arg("decode-analysis")
            .arg("--model")
            .arg(&reader.run)
            .arg("--out")
            .arg(folder)
            .arg("--")
            .arg(path);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            command.spawn().context(|| format!("{} cannot be started", self.program.display()))?;
        let mut outputs = Vec::new();
        if let (Some(output), Some(errors)) = (child.stdout.take(), child.stderr.take()) {
            outputs.push(collect(output));
            outputs.push(collect(errors));
        }
        let started = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().context(|| "the decoding process".into())? {
                break status;
            }
            let late = started.elapsed() > self.time_limit;
            if late || stop.load(Ordering::SeqCst) {
                let _ = child.kill();
                let _ = child.wait();
                return Err(if late {
                    Error::input(format!("decoding did not end within {:?}", self.time_limit))
                } else {
                    Error::run("the service is being stopped")
                });
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let mut texts = outputs.into_iter().map(|thread| thread.join().unwrap_or_default());
        let (answer, complaint) = (texts.next().unwrap_or_default(), texts.next().unwrap_or_default());
        match serde_json::from_slice(&answer) {
            Ok(Answer::Decoded(decoded)) if status.success() => Ok(Ok(decoded)),
            Ok(Answer::Refused(refusal)) => Ok(Err(refusal)),
            _ => {
                let complaint = String::from_utf8_lossy(&complaint).into_owned();
                let last = complaint.lines().rev().find(|line| !line.trim().is_empty());
                Err(Error::input(format!(
                    "decoding crashed ({status}; {})",
                    last.unwrap_or("it said nothing").trim()
                )))
            }
        }
    }
}

/// Reads in a thread, so that the process never waits for a reader.
fn collect(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What could be read before an error is all that there is.
        let _ = from.by_ref().take(LONGEST_ANSWER).read_to_end(&mut bytes);
        let _ = std::io::copy(&mut from, &mut std::io::sink());
        bytes
    })
}
