//! The folder of one training: what was asked, what was run, how it went, and what came of it.
//!
//! ```text
//! config.toml                 the resolved configuration
//! run.json                    versions, device, data fingerprint
//! metrics.jsonl               one JSON object a line
//! events.out.tfevents.*       the same for TensorBoard
//! checkpoints/step-N/         see `checkpoint`
//! best -> checkpoints/step-N  the one with the best validation score
//! ```

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::error::{Context, Error, Result};
use crate::io::atomic::{sync_folder, write_whole};
use crate::io::checkpoint;

/// A run folder that this process alone may write to, as long as the value lives; or one that another process of the same
/// training writes to.
#[derive(Debug)]
pub struct RunDir {
    root: PathBuf,
    /// The lock goes with the open file, so a killed process cannot leave it behind.
    _lock: Option<File>,
}

const CONFIG: &str = "config.toml";
const BEST: &str = "best";

impl RunDir {
    /// Makes a new run folder; one that already holds a run is refused.
    pub fn create(root: &Path) -> Result<Self> {
        std::fs::create_dir_all(root).context(|| format!("cannot make the run folder {}", root.display()))?;
        let run = Self::lock(root)?;
        // A training that was refused or killed before its first checkpoint left nothing that is worth keeping.
        if !checkpoint::steps(&run.checkpoints())?.is_empty() {
            return Err(Error::input(format!("the folder {} already holds a run", root.display()))
                .hint("continue it with --resume, or choose another name with --run"));
        }
        Ok(run)
    }

    /// Opens an existing run folder to continue it.
    pub fn resume(root: &Path) -> Result<Self> {
        if !root.is_dir() {
            return Err(Error::input(format!("there is no run {} to resume", root.display()))
                .hint("start it without --resume, or name its folder with --run"));
        }
        Self::lock(root)
    }

    /// The folder that another process has made or opened, to read from.
    pub fn follow(root: &Path) -> Self {
        Self { root: root.to_owned(), _lock: None }
    }

    fn lock(root: &Path) -> Result<Self> {
        let path = root.join("lock");
        let cannot = || format!("cannot lock the run folder {}", root.display());
        let file = OpenOptions::new().create(true).append(true).open(&path).context(cannot)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { root: root.to_owned(), _lock: Some(file) }),
            Err(TryLockError::WouldBlock) => {
                Err(Error::input(format!("another training is writing to {}", root.display()))
                    .hint("wait for it to end, or choose another folder with --run"))
            }
            Err(TryLockError::Error(error)) => Err(Error::run(cannot()).caused_by(error)),
        }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub fn checkpoints(&self) -> PathBuf {
        self.root.join("checkpoints")
    }

    pub fn checkpoint(&self, step: u64) -> PathBuf {
        self.checkpoints().join(format!("step-{step}"))
    }

    /// Stores the resolved configuration and the description of the run.
    pub fn describe(&self, config_toml: &str, run_json: &str) -> Result<()> {
        for (name, text) in [("run.json", run_json), (CONFIG, config_toml)] {
            write_whole(&self.path(name), |file| {
                file.write_all(text.as_bytes()).context(|| format!("cannot write {name}"))
            })?;
        }
        Ok(())
    }

    /// The resolved configuration that the run was started with, `None` when it did not get that far.
    pub fn config_toml(&self) -> Result<Option<String>> {
        match std::fs::read_to_string(self.path(CONFIG)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            text => text.map(Some).context(|| format!("cannot read {}", self.path(CONFIG).display())),
        }
    }

    /// Lets `best` point to the checkpoint of `step`, in one step.
    pub fn set_best(&self, step: u64) -> Result<()> {
        let link = self.path(BEST);
        let target = Path::new("checkpoints").join(format!("step-{step}"));
        if std::fs::read_link(&link).is_ok_and(|old| old == target) {
            return Ok(());
        }
        let cannot = || format!("cannot let {} point to {}", link.display(), target.display());
        let fresh = self.path(".best.part");
        match std::fs::remove_file(&fresh) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Error::run(cannot()).caused_by(error));
            }
            _ => std::os::unix::fs::symlink(&target, &fresh).context(cannot)?,
        }
        std::fs::rename(&fresh, &link).context(cannot)?;
        sync_folder(&self.root)
    }

    /// Removes the pointer, when a resumed run goes back to before its first validation.
    pub fn clear_best(&self) -> Result<()> {
        match std::fs::remove_file(self.path(BEST)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).context(|| "cannot remove best".into())
            }
            _ => Ok(()),
        }
    }
}

/// The checkpoint that a user means by `path`: a checkpoint folder itself, or a run folder, whose best one is taken, or
/// its latest where there is no best yet.
pub fn find_checkpoint(path: &Path) -> Result<PathBuf> {
    if !path.is_dir() {
        return Err(Error::input(format!("there is no run or checkpoint {}", path.display())));
    }
    let best = path.join(BEST);
    if checkpoint::is_complete(path) || checkpoint::step_of(path).is_some() {
        return Ok(path.to_owned());
    }
    if checkpoint::is_complete(&best) {
        return best.canonicalize().context(|| format!("cannot follow {}", best.display()));
    }
    let steps = checkpoint::steps(&path.join("checkpoints"))?;
    let latest = steps.into_iter().rev().map(|(_, path)| path).find(|path| checkpoint::is_complete(path));
    latest.ok_or_else(|| {
        Error::input(format!("{} holds no finished checkpoint", path.display()))
            .hint("name a run folder that `wxsim train` made, or one of its checkpoints/step-N")
    })
}

/// A file that only grows, and whose length a checkpoint remembers so that a resumed run continues the same curve.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    length: u64,
}

impl Journal {
    /// Opens the file and cuts it back to `length` bytes, 0 for a new run. Gives the number of bytes that are missing
    /// when it is shorter than that.
    pub fn open(path: &Path, length: u64) -> Result<(Self, u64)> {
        let cannot = || format!("cannot open {}", path.display());
        let file = OpenOptions::new().create(true).append(true).open(path).context(cannot)?;
        let found = file.metadata().context(cannot)?.len();
        let kept = length.min(found);
        file.set_len(kept).context(cannot)?;
        Ok((Self { path: path.to_owned(), file, length: kept }, length - kept))
    }

    /// Appends in one piece.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).context(|| format!("cannot write to {}", self.path.display()))?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Brings everything to the disk and gives the length that a checkpoint may rely on.
    pub fn sync(&mut self) -> Result<u64> {
        self.file.sync_all().context(|| format!("cannot bring {} to the disk", self.path.display()))?;
        Ok(self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::checkpoint::Tensors;

    #[test]
    fn two_trainings_cannot_share_a_folder_and_a_run_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("runs/a");
        assert!(RunDir::resume(&root).is_err(), "nothing to resume");
        let first = RunDir::create(&root).unwrap();
        let error = RunDir::resume(&root).unwrap_err();
        assert!(error.to_string().contains("another training"), "{error}");
        first.describe("[train]\n", "{}").unwrap();
        drop(first);
        let first = RunDir::create(&root).expect("without a checkpoint there is nothing to lose");
        std::fs::create_dir_all(first.checkpoint(1)).unwrap();
        drop(first);
        let error = RunDir::create(&root).unwrap_err();
        assert!(error.advice().unwrap().contains("--resume"), "{error}");
        let again = RunDir::resume(&root).unwrap();
        assert_eq!(again.config_toml().unwrap().as_deref(), Some("[train]\n"));
    }

    #[test]
    fn best_is_found_by_run_and_by_checkpoint_and_follows_set_best() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(folder.path()).unwrap();
        assert!(find_checkpoint(folder.path()).is_err());
        for step in [1, 2, 3] {
            std::fs::create_dir_all(run.checkpoints()).unwrap();
            checkpoint::save(&run.checkpoint(step), &Tensors::new(), "{}").unwrap();
        }
        assert_eq!(find_checkpoint(folder.path()).unwrap(), run.checkpoint(3), "no best yet: the latest");
        for step in [1, 2] {
            run.set_best(step).unwrap();
            let found = find_checkpoint(folder.path()).unwrap();
            assert_eq!(checkpoint::step_of(&found), Some(step));
        }
        assert_eq!(find_checkpoint(&run.checkpoint(1)).unwrap(), run.checkpoint(1));
        run.clear_best().unwrap();
        assert_eq!(find_checkpoint(folder.path()).unwrap(), run.checkpoint(3));
    }

    #[test]
    fn a_journal_is_cut_back_to_what_the_checkpoint_knows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let (mut journal, _) = Journal::open(&path, 0).unwrap();
        journal.append(b"one\n").unwrap();
        let known = journal.sync().unwrap();
        journal.append(b"two\nthr").unwrap();
        let (mut journal, missing) = Journal::open(&path, known).unwrap();
        assert_eq!(missing, 0);
        journal.append(b"2\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\n2\n");
        assert_eq!(Journal::open(&path, 10).unwrap().1, 4);
    }
}
