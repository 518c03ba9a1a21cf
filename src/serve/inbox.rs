//! The folder where analyses arrive: which files are whole and not yet dealt with.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecursiveMode, Watcher};

use super::plan::{Complete, InboxPlan};
use crate::error::{Context, Error, Result};

/// A whole file.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrived {
    pub path: PathBuf,
    pub size: u64,
    /// [ns since 1970]
    pub modified: i64,
    /// When it was whole [ms since 1970].
    pub complete: i64,
}

/// Somebody closed a file after writing.
const WRITTEN: EventKind = EventKind::Access(AccessKind::Close(AccessMode::Write));

/// Looks into the folder.
pub struct Inbox {
    plan: InboxPlan,
    /// Sizes and times of files that are watched until they change no more.
    watched: HashMap<PathBuf, (u64, i64, Instant)>,
}

impl Inbox {
    /// The folder has to be there.
    pub fn new(plan: InboxPlan) -> Result<Self> {
        if !plan.folder.is_dir() {
            return Err(Error::input(format!(
                "serve.inbox.folder: there is no folder {}",
                plan.folder.display()
            ))
            .hint("make it, or name another: files that are put there are forecast from"));
        }
        Ok(Self { plan, watched: HashMap::new() })
    }

    /// Whole files of which `is_new` says so (by path, size and time), in the order of their names.
    pub fn look(&mut self, mut is_new: impl FnMut(&Path, u64, i64) -> Result<bool>) -> Result<Vec<Arrived>> {
        let folder = &self.plan.folder;
        let cannot = || format!("cannot read the inbox {}", folder.display());
        let mut found = Vec::new();
        let mut seen = HashMap::new();
        for entry in std::fs::read_dir(folder).context(cannot)? {
            let path = entry.context(cannot)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if !self.plan.pattern.matches(&name) || is_provisional(&name) {
                continue;
            }
            // It may be gone by now.
            let Ok(meta) = std::fs::metadata(&path) else { continue };
            let modified = meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec());
            if !meta.is_file() || !is_new(&path, meta.len(), modified)? {
                continue;
            }
            let named = meta.ctime() * 1000 + meta.ctime_nsec() / 1_000_000;
            let complete = match &self.plan.complete {
                Complete::Rename => Some(named),
                Complete::Marker(ending) => {
                    let marker = path.with_file_name(format!("{name}{ending}"));
                    std::fs::metadata(marker).ok().map(|m| m.mtime() * 1000 + m.mtime_nsec() / 1_000_000)
                }
                Complete::Stable(time) => {
                    let now = Instant::now();
                    let since = match self.watched.get(&path) {
                        Some(&(size, at, since)) if (size, at) == (meta.len(), modified) => since,
                        _ => now,
                    };
                    seen.insert(path.clone(), (meta.len(), modified, since));
                    (now - since >= *time).then_some(modified / 1_000_000)
                }
            };
            if let Some(complete) = complete {
                found.push(Arrived { path, size: meta.len(), modified, complete });
            }
        }
        self.watched = seen;
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    /// Whether a file has come that may be whole soon.
    pub fn expects(&self) -> bool {
        !self.watched.is_empty()
    }

    /// How long nobody needs to look, unless something moves.
    pub fn pause(&self) -> Duration {
        match self.plan.complete {
            Complete::Stable(time) if !self.watched.is_empty() => {
                self.plan.poll.min(time / 4).max(Duration::from_millis(20))
            }
            _ => self.plan.poll,
        }
    }

    /// Calls `wake` whenever something moves in the folder, as long as the watcher lives. Where the system cannot tell,
    /// looking every so often has to do.
    pub fn watch(&self, wake: impl Fn() + Send + 'static) -> Result<notify::RecommendedWatcher> {
        let wrong = |error| Error::run("the inbox cannot be watched").caused_by(error);
        // Looking into the folder is no news.
        let is_news =
            |event: &notify::Event| !matches!(event.kind, EventKind::Access(_)) || event.kind == WRITTEN;
        let tell = move |event: notify::Result<notify::Event>| {
            if event.as_ref().map_or(true, is_news) {
                wake();
            }
        };
        let mut watcher = notify::recommended_watcher(tell).map_err(wrong)?;
        watcher.watch(&self.plan.folder, RecursiveMode::NonRecursive).map_err(wrong)?;
        Ok(watcher)
    }
}

/// Names under which files are written before they are whole.
fn is_provisional(name: &str) -> bool {
    name.starts_with('.') || [".part", ".tmp", ".partial", "~"].iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::plan::Duplicates;

    fn inbox(folder: &Path, complete: Complete) -> Inbox {
        Inbox::new(InboxPlan {
            folder: folder.to_owned(),
            pattern: glob::Pattern::new("*.nc").unwrap(),
            complete,
            poll: Duration::from_secs(1),
            duplicates: Duplicates::First,
            removes: false,
            time_limit: Duration::from_secs(60),
            decoders: 1,
        })
        .unwrap()
    }

    fn names(inbox: &mut Inbox) -> Vec<String> {
        let found = inbox.look(|_, _, _| Ok(true)).unwrap();
        found.iter().map(|one| one.path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn names_that_are_provisional_or_do_not_fit_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.nc", "a.nc", ".c.nc", "d.nc.part", "e.txt", "a.nc~"] {
            std::fs::write(folder.path().join(name), "x").unwrap();
        }
        std::fs::create_dir(folder.path().join("folder.nc")).unwrap();
        let mut inbox = inbox(folder.path(), Complete::Rename);
        assert_eq!(names(&mut inbox), ["a.nc", "b.nc"]);
        let only_b = |path: &Path, _, _| Ok(path.ends_with("b.nc"));
        assert_eq!(inbox.look(only_b).unwrap().len(), 1);
    }

    #[test]
    fn a_file_with_a_marker_is_whole_when_the_marker_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let mut inbox = inbox(folder.path(), Complete::Marker(".done".into()));
        std::fs::write(folder.path().join("a.nc"), "x").unwrap();
        assert!(names(&mut inbox).is_empty());
        std::fs::write(folder.path().join("a.nc.done"), "").unwrap();
        assert_eq!(names(&mut inbox), ["a.nc"]);
    }

    #[test]
    fn a_file_that_still_grows_is_not_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.nc");
        let mut inbox = inbox(folder.path(), Complete::Stable(Duration::from_millis(80)));
        std::fs::write(&path, "x").unwrap();
        assert!(names(&mut inbox).is_empty());
        std::thread::sleep(Duration::from_millis(50));
        std::fs::write(&path, "xy").unwrap();
        assert!(names(&mut inbox).is_empty());
        std::thread::sleep(Duration::from_millis(50));
        assert!(names(&mut inbox).is_empty(), "it changed 50 ms ago");
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(names(&mut inbox), ["a.nc"]);
    }

    #[test]
    fn a_folder_that_is_not_there_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let plan = inbox(folder.path(), Complete::Rename).plan;
        let error = Inbox::new(InboxPlan { folder: folder.path().join("no"), ..plan }).err().unwrap();
        assert!(error.to_string().contains("serve.inbox.folder"));
    }
}
