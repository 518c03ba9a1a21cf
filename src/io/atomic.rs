//! Files that are there whole or not at all.
//!
//! A file is written under a temporary name in the folder where it belongs, brought to the disk, and renamed. A kill,
//! a full disk or an error in between leaves nothing under the final name; what the process can still remove, it does.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Context, Error, Result};

/// Writes a whole file: `write` fills it, and it appears under `path` only when everything is on the disk.
/// An existing file is replaced in one step.
pub fn write_whole(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<()> {
    let pending = Pending::new(path)?;
    let cannot = || format!("cannot write {}", path.display());
    let file = File::create_new(pending.path()).context(cannot)?;
    let mut writer = BufWriter::with_capacity(1 << 16, file);
    write(&mut writer)?;
    writer.flush().context(cannot)?;
    drop(writer);
    pending.commit()
}

/// A file on its way, for writers that open it by name themselves. Dropped before [`commit`](Pending::commit),
/// it removes what was written.
#[derive(Debug)]
pub struct Pending {
    temporary: PathBuf,
    target: PathBuf,
}

impl Pending {
    /// Chooses a temporary name beside `target`; the folder must exist. No file is made yet.
    pub fn new(target: &Path) -> Result<Self> {
        let temporary = hidden(target)?;
        // A rename would put a plain file where a device, a pipe or a folder was.
        if std::fs::metadata(target).is_ok_and(|found| !found.is_file()) {
            return Err(Error::input(format!("{} is there and is no regular file", target.display()))
                .hint("name a file that may be written or replaced"));
        }
        Ok(Self { temporary, target: target.to_owned() })
    }

    /// Where to write.
    pub fn path(&self) -> &Path {
        &self.temporary
    }

    /// Where it will appear.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Brings the written and closed file to the disk and gives it its name.
    pub fn commit(self) -> Result<()> {
        let cannot = || format!("cannot finish {}", self.target.display());
        File::open(&self.temporary).and_then(|file| file.sync_all()).context(cannot)?;
        std::fs::rename(&self.temporary, &self.target).context(cannot)?;
        sync_folder(self.target.parent().unwrap_or(Path::new(".")))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        // After a commit there is nothing under this name; otherwise whoever dropped it already has an error to tell.
        let _ = std::fs::remove_file(&self.temporary);
    }
}

/// A folder on its way: its files are written under a temporary name, and appear together. Dropped before
/// [`commit`](PendingFolder::commit), it removes what was written.
#[derive(Debug)]
pub struct PendingFolder {
    temporary: PathBuf,
    target: PathBuf,
}

impl PendingFolder {
    /// A folder that is there is replaced if it holds a file `mark`, which says what it is; anything else is left alone.
    pub fn new(target: &Path, mark: &str) -> Result<Self> {
        if std::fs::symlink_metadata(target).is_ok() && !target.join(mark).is_file() {
            return Err(Error::input(format!("{} is there and has no {mark}", target.display()))
                .hint("move it away: only what it could be is replaced"));
        }
        let temporary = hidden(target)?;
        std::fs::create_dir(&temporary).context(|| format!("cannot write {}", target.display()))?;
        Ok(Self { temporary, target: target.to_owned() })
    }

    /// Where to write.
    pub fn path(&self) -> &Path {
        &self.temporary
    }

    /// Where it will appear.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Brings the written files to the disk and gives the folder its name.
    pub fn commit(self) -> Result<()> {
        let cannot = || format!("cannot finish {}", self.target.display());
        sync_tree(&self.temporary).context(cannot)?;
        if std::fs::symlink_metadata(&self.target).is_ok() {
            // What was there goes under the temporary name, and with it.
            swap_folders(&self.temporary, &self.target).context(cannot)?;
        } else {
            std::fs::rename(&self.temporary, &self.target).context(cannot)?;
        }
        sync_folder(self.target.parent().unwrap_or(Path::new(".")))
    }
}

impl Drop for PendingFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.temporary);
    }
}

/// Exchanges the names of two folders, in one step where the file system can do that.
pub fn swap_folders(one: &Path, other: &Path) -> std::io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    if renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).is_ok() {
        return Ok(());
    }
    let mut aside = one.as_os_str().to_owned();
    aside.push(".old");
    std::fs::rename(other, &aside)?;
    std::fs::rename(one, other)?;
    std::fs::rename(&aside, one)
}

/// Brings all files below a folder to the disk.
fn sync_tree(folder: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { sync_tree(&path)? } else { File::open(&path)?.sync_all()? }
    }
    sync_folder(folder).map_err(std::io::Error::other)
}

/// A name beside another. The process and a count make it ours: two may write the same target at the same time.
fn hidden(target: &Path) -> Result<PathBuf> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = target
        .file_name()
        .ok_or_else(|| Error::input(format!("'{}' is not the name of a file to write", target.display())))?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}-{}.part", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    Ok(target.with_file_name(hidden))
}

/// Brings the names in a folder to the disk: a rename is safe from a power cut only after this.
pub fn sync_folder(folder: &Path) -> Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    match File::open(folder).and_then(|file| file.sync_all()) {
        // Some network file systems cannot do this for folders; they have no names in flight either.
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
        result => result.context(|| format!("cannot bring the folder {} to the disk", folder.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_device_and_a_folder_are_not_replaced_by_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        for target in [folder.path(), &link] {
            let error = write_whole(target, |_| Ok(())).unwrap_err();
            assert!(error.to_string().contains("no regular file"), "{error}");
        }
        assert!(link.is_symlink());
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        write_whole(&path, |file| file.write_all(b"old").context(|| "write".into())).unwrap();
        let failed = write_whole(&path, |file| {
            file.write_all(&vec![0; 100_000]).context(|| "write".into())?;
            Err(Error::run("no space left on device"))
        });
        assert!(failed.is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["a.json"]);
    }

    #[test]
    fn a_second_write_replaces_the_first_in_one_step() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        for text in ["first", "second"] {
            write_whole(&path, |file| {
                file.write_all(text.as_bytes()).context(|| "write".into())?;
                // While it is being written, the final name is absent or old.
                assert_ne!(std::fs::read(&path).ok().as_deref(), Some(text.as_bytes()));
                Ok(())
            })
            .unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), text.as_bytes());
        }
        assert_eq!(names(folder.path()), ["a.json"]);
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error_that_names_the_file() {
        let error = write_whole(Path::new("/nonexistent/a.json"), |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/a.json"), "{error}");
    }
}
