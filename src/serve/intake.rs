//! Decodes files that arrived, each in a process of its own, some of them at the same time.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, unbounded};

use super::decode::{Answer, Decoded, Refusal};
use super::inbox::Arrived;
use super::ledger::now;
use crate::error::{Context, Error, Result};

/// How long what is decoded waits for what came before it.
const PATIENCE: Duration = Duration::from_secs(10);
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

/// Models to which a file says the same, and the run of one of them, which tells how it is to be understood.
#[derive(Debug, Clone)]
pub struct Reader {
    pub models: Vec<String>,
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

/// Starts threads that decode what comes from `files` until that ends, `at_once` at the same time, and one that tells what
/// they found in the order in which the files came.
pub fn start(
    decoder: &Decoder,
    readers: Vec<Reader>,
    folder: &Path,
    files: Receiver<Arrived>,
    at_once: usize,
    stop: &Arc<AtomicBool>,
    tell: impl Fn(Intake) + Send + 'static,
) -> Result<Vec<JoinHandle<()>>> {
    // A process that a killed service left behind may still write into the folder that was its own.
    let folder = folder.join(now().to_string());
    let files = Arc::new(Mutex::new(files.into_iter().enumerate()));
    let readers = Arc::new(readers);
    let (done, decoded) = unbounded();
    let mut threads = Vec::new();
    let mut spawn = |work: Box<dyn FnOnce() + Send>| {
        let thread = std::thread::Builder::new().name("intake".into()).spawn(work);
        thread.map(|thread| threads.push(thread)).context(|| "cannot start a thread".into())
    };
    for _ in 0..at_once {
        let (decoder, readers, folder) = (decoder.clone(), readers.clone(), folder.clone());
        let (files, stop, done) = (files.clone(), stop.clone(), done.clone());
        spawn(Box::new(move || {
            // One waits for the next file, and the others for their turn to wait.
            let next = || files.lock().unwrap_or_else(PoisonError::into_inner).next();
            while let Some((number, arrived)) = next() {
                let intake = decoder.for_all(arrived, &readers, folder.join(number.to_string()), &stop);
                if stop.load(Ordering::SeqCst) || done.send((number, intake)).is_err() {
                    return;
                }
            }
        }))?;
    }
    spawn(Box::new(move || in_order(&decoded, tell)))?;
    Ok(threads)
}

/// Tells in the order of numbers. One that takes long holds up the others only so long.
fn in_order<T>(numbered: &Receiver<(usize, T)>, tell: impl Fn(T)) {
    let mut waiting = BTreeMap::new();
    let (mut next, mut since) = (0, Instant::now());
    loop {
        if waiting.is_empty() {
            since = Instant::now();
        }
        match numbered.recv_timeout(PATIENCE.saturating_sub(since.elapsed())) {
            Ok((number, one)) if number < next => tell(one),
            Ok((number, one)) => drop(waiting.insert(number, one)),
            Err(RecvTimeoutError::Timeout) => next = waiting.keys().next().copied().unwrap_or(next),
            Err(RecvTimeoutError::Disconnected) => return,
        }
        while let Some(one) = waiting.remove(&next) {
            tell(one);
            next += 1;
            since = Instant::now();
        }
    }
}

impl Decoder {
    /// Decodes a file for all models, into a folder for each.
    fn for_all(&self, arrived: Arrived, readers: &[Reader], folder: PathBuf, stop: &AtomicBool) -> Intake {
        let mut found = Vec::new();
        for Reader { models, run } in readers {
            let Some(first) = models.first() else { continue };
            let decoded = self.decode(&arrived.path, run, &folder.join(first), stop);
            for model in models {
                let own = match &decoded {
                    Ok(dates) if model != first => share(dates, &folder.join(first), &folder.join(model))
                        .map(|()| dates.clone())
                        .map_err(|error| Refusal::of(&error)),
                    decoded => decoded.clone(),
                };
                found.push((model.clone(), own));
            }
        }
        Intake { arrived, folder, found }
    }

    fn decode(
        &self,
        path: &Path,
        run: &Path,
        folder: &Path,
        stop: &AtomicBool,
    ) -> Result<Vec<Decoded>, Refusal> {
        self.answer(path, run, folder, stop).map_err(|error| Refusal::of(&error))?
    }

    /// What the process says; an error where it says nothing.
    fn answer(
        &self,
        path: &Path,
        run: &Path,
        folder: &Path,
        stop: &AtomicBool,
    ) -> Result<Result<Vec<Decoded>, Refusal>> {
        std::fs::create_dir_all(folder).context(|| format!("cannot make {}", folder.display()))?;
        let mut command = Command::new(&self.program);
        command.arg("decode-analysis").arg("--model").arg(run).arg("--out").arg(folder).arg("--").arg(path);
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

/// Gives the decoded files of one model to another as well.
fn share(dates: &[Decoded], from: &Path, to: &Path) -> Result<()> {
    let cannot = || format!("cannot write {}", to.display());
    std::fs::create_dir_all(to).context(cannot)?;
    for file in dates.iter().filter_map(|date| date.file.as_ref()) {
        // They are never changed, so that a second name is as good as a copy.
        if std::fs::hard_link(from.join(file), to.join(file)).is_err() {
            std::fs::copy(from.join(file), to.join(file)).context(cannot)?;
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_decoded_at_the_same_time_is_told_in_order() {
        let (sender, numbered) = unbounded();
        let (tell, told) = unbounded();
        for one in [(2, 'c'), (0, 'a'), (1, 'b'), (4, 'e'), (3, 'd')] {
            sender.send(one).unwrap();
        }
        drop(sender);
        in_order(&numbered, |letter| tell.send(letter).unwrap());
        assert_eq!(told.try_iter().collect::<String>(), "abcde");
    }
}
