//! Gives whole forecasts their names, once, and never over a file that somebody else wrote.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use std::io::Write;

use super::cycle::digest;
use super::folders::Folders;
use super::ledger::{Cycle, Ledger, Staged};
use super::plan::KeepPlan;
use super::store;
use crate::error::{Context, Error, Result};
use crate::io::atomic::{swap_folders, sync_folder, write_whole};
use crate::time::InitTime;

/// What a reader of the output folder finds in `manifest.json`.
#[derive(Serialize)]
struct Manifest<'a> {
    model: &'a str,
    /// Newest first.
    forecasts: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    file: String,
    forecast_reference_time: String,
    sha256: String,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    zarr: Option<StoreEntry>,
    start: Option<String>,
    late: bool,
    provider: Option<String>,
}

/// The same forecast as a folder of files, whose checksums stand in a file of their own.
#[derive(Serialize)]
struct StoreEntry {
    store: String,
    checksums: String,
    /// Of that file.
    sha256: String,
    bytes: u64,
}

/// The output folder, and what the ledger knows of it.
pub struct Publisher<'a> {
    pub folders: &'a Folders,
    pub ledger: &'a mut Ledger,
}

impl Publisher<'_> {
    /// Publishes what [`Ledger::intend`] has announced. Whatever crashes when: [`recover`](Self::recover) ends it.
    pub fn publish(&mut self, model: &str, init: InitTime, staged: &Staged) -> Result<()> {
        let file = Folders::forecast(model, init);
        let (from, to) = (self.folders.out.join(&staged.path), self.folders.out.join(&file));
        let before = self.ledger.cycle(model, init)?;
        let before = before.as_ref();
        let known = before.and_then(|cycle| cycle.store.as_ref());
        let is_old = |path: &Path| before.is_some_and(|cycle| is_ours(path, cycle));
        let is_old_list = |path: &Path| known.is_some_and(|old| is_whole(path, &old.digest));
        let is_old_store = |path: &Path| known.is_some_and(|old| store::is_still(path, old));
        let stores = staged.zarr.as_ref().map(|digest| (self.store(&staged.path), self.store(&file), digest));
        // Before anything gets its name, all of it has to be allowed to.
        may_be_named(&to, |path| is_old(path) || is_whole(path, &staged.digest))?;
        if let Some((_, to, digest)) = &stores {
            may_be_named(&store::sums(to), |path| is_old_list(path) || is_whole(path, digest))?;
            may_be_named(to, |path| is_old_store(path) || store::is(path, digest))?;
        }
        if let Some((from, to, digest)) = &stores {
            name(&store::sums(from), &store::sums(to), digest, is_old_list)?;
            name_store(from, to, digest, is_old_store)?;
        }
        name(&from, &to, &staged.digest, is_old)?;
        sync_folder(&self.folders.published(model))?;
        let meta = std::fs::metadata(&to).context(|| format!("cannot read {}", to.display()))?;
        let measure = |digest: &String| store::measure(&self.store(&file), digest);
        let store = staged.zarr.as_ref().map(measure).transpose()?;
        self.ledger.publish(model, init, &file, meta.len(), modified(&meta), store.as_ref())?;
        self.announce(model)
    }

    /// Removes what is not going to be published. What cannot be removed now is swept away at the next start.
    pub fn discard(&self, staged: &Staged) {
        let _ = std::fs::remove_file(self.folders.out.join(&staged.path));
        if staged.zarr.is_some() {
            let store = self.store(&staged.path);
            let _ = std::fs::remove_dir_all(&store);
            let _ = std::fs::remove_file(store::sums(&store));
        }
    }

    /// Ends a publication that a crash cut short; `false` where something of it is lost.
    pub fn recover(&mut self, model: &str, init: InitTime, staged: &Staged) -> Result<bool> {
        let places = [staged.path.clone(), Folders::forecast(model, init)];
        let is_file = |path: &String| is_whole(&self.folders.out.join(path), &staged.digest);
        let is_store = |digest: &String| {
            let is_listed = |path: &String| is_whole(&store::sums(&self.store(path)), digest);
            places.iter().any(|path| store::is(&self.store(path), digest)) && places.iter().any(is_listed)
        };
        if places.iter().any(is_file) && staged.zarr.as_ref().is_none_or(is_store) {
            self.publish(model, init, staged)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// The store that belongs to a forecast.
    fn store(&self, file: &str) -> PathBuf {
        self.folders.out.join(Folders::store(file))
    }

    /// Brings the pointer to the newest forecast and the manifest up to date.
    pub fn announce(&mut self, model: &str) -> Result<()> {
        let folder = self.folders.published(model);
        let published: Vec<Cycle> = self.ledger.published(model)?.into_iter().rev().collect();
        point(&folder.join("latest.nc"), published.first().and_then(file_name))?;
        let with_store = published.iter().find(|cycle| cycle.store.is_some()).and_then(file_name);
        let latest = folder.join("latest.zarr");
        if with_store.is_some() || latest.is_symlink() {
            point(&latest, with_store.map(|file| Folders::store(&file)))?;
        }
        let entry = |cycle: &Cycle| {
            Some(Entry {
                file: file_name(cycle)?,
                forecast_reference_time: cycle.init.to_string(),
                sha256: cycle.digest.clone()?,
                bytes: cycle.size?,
                zarr: cycle.store.as_ref().zip(file_name(cycle)).map(|(store, file)| StoreEntry {
                    store: Folders::store(&file),
                    checksums: format!("{}.sha256", Folders::store(&file)),
                    sha256: store.digest.clone(),
                    bytes: store.size,
                }),
                start: cycle.start.clone(),
                late: cycle.late,
                provider: cycle.provider.clone(),
            })
        };
        let manifest = Manifest { model, forecasts: published.iter().filter_map(entry).collect() };
        write_whole(&folder.join("manifest.json"), |out| {
            serde_json::to_writer_pretty(&mut *out, &manifest)
                .map_err(|error| Error::run("the manifest cannot be written").caused_by(error))?;
            out.write_all(b"\n").context(|| "the manifest cannot be written".into())
        })
    }

    /// Removes the forecasts of a model that are too many or too old, but never the newest; the names of those removed.
    pub fn tidy(&mut self, model: &str, keep: &KeepPlan) -> Result<Vec<String>> {
        let published = self.ledger.published(model)?;
        let Some(newest) = published.last().map(|cycle| cycle.init) else { return Ok(Vec::new()) };
        let surplus = keep.cycles.map_or(0, |most| published.len().saturating_sub(most.max(1)));
        let old = |cycle: &Cycle| {
            cycle.init != newest && keep.age.is_some_and(|age| newest.0.since(cycle.init.0) > age)
        };
        let gone: Vec<&Cycle> = published
            .iter()
            .enumerate()
            .filter(|(number, cycle)| *number < surplus || old(cycle))
            .map(|(_, cycle)| cycle)
            .collect();
        self.remove(model, &gone)
    }

    /// Removes the oldest forecast of a model beyond those to keep; its name, if there was one.
    pub fn make_room(&mut self, model: &str, at_least: usize) -> Result<Option<String>> {
        let published = self.ledger.published(model)?;
        if published.len() <= at_least.max(1) {
            return Ok(None);
        }
        Ok(self.remove(model, &[&published[0]])?.pop())
    }

    fn remove(&mut self, model: &str, gone: &[&Cycle]) -> Result<Vec<String>> {
        let mut removed = Vec::new();
        for cycle in gone {
            let Some(file) = &cycle.file else { continue };
            let path = self.folders.out.join(file);
            // A file that somebody has changed is theirs.
            if is_ours(&path, cycle) {
                std::fs::remove_file(&path).context(|| format!("cannot remove {}", path.display()))?;
                removed.push(file.clone());
            }
            let place = self.store(file);
            if cycle.store.as_ref().is_some_and(|store| store::is_still(&place, store)) {
                store::remove(&place, &self.folders.staging(model))?;
            }
            self.ledger.forget_file(model, cycle.init)?;
        }
        if !gone.is_empty() {
            self.announce(model)?;
        }
        Ok(removed)
    }
}

/// Whether there is nothing of that name, or only what may go.
fn may_be_named(path: &Path, may_go: impl Fn(&Path) -> bool) -> Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(_) if !may_go(path) => Err(is_theirs(path)),
        _ => Ok(()),
    }
}

/// A file gets its name; an older one of the same cycle (`is_old`) is replaced, and nothing else.
fn name(from: &Path, to: &Path, digest: &str, is_old: impl Fn(&Path) -> bool) -> Result<()> {
    let cannot = || format!("cannot publish {}", to.display());
    // A second name fails where there is one already, which a rename does not.
    match std::fs::hard_link(from, to) {
        Ok(()) => std::fs::remove_file(from).context(cannot),
        // It got its name before a crash; perhaps the other one is still there.
        Err(_) if is_whole(to, digest) => match std::fs::remove_file(from) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error).context(cannot),
            _ => Ok(()),
        },
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if !is_old(to) {
                return Err(is_theirs(to));
            }
            std::fs::rename(from, to).context(cannot)
        }
        // A file system without second names: nobody else writes here, as far as can be seen.
        Err(_) if !to.exists() => std::fs::rename(from, to).context(cannot),
        Err(error) => Err(error).context(cannot),
    }
}

/// As [`name`], of a store.
fn name_store(from: &Path, to: &Path, digest: &str, is_old: impl Fn(&Path) -> bool) -> Result<()> {
    let cannot = || format!("cannot publish {}", to.display());
    let clear = || match std::fs::remove_dir_all(from) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error).context(cannot),
        _ => Ok(()),
    };
    if std::fs::symlink_metadata(to).is_err() {
        return std::fs::rename(from, to).context(cannot);
    }
    if store::is(to, digest) {
        return clear();
    }
    if !is_old(to) {
        return Err(is_theirs(to));
    }
    swap_folders(from, to).context(cannot)?;
    clear()
}

fn is_theirs(path: &Path) -> Error {
    Error::input(format!("{} is there, and was not written by this service", path.display()))
        .hint("move it away, then: wxsim cycles rerun")
}

fn is_whole(path: &Path, expected: &str) -> bool {
    path.is_file() && digest(path).is_ok_and(|found| found == expected)
}

/// Whether a file is the one that this service wrote for a cycle: as large and as old, or else with the same bytes.
fn is_ours(path: &Path, cycle: &Cycle) -> bool {
    let Ok(meta) = std::fs::symlink_metadata(path) else { return false };
    if !meta.is_file() || cycle.size != Some(meta.len()) {
        return false;
    }
    cycle.modified == Some(modified(&meta)) || digest(path).is_ok_and(|found| Some(found) == cycle.digest)
}

fn modified(meta: &std::fs::Metadata) -> i64 {
    meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec())
}

fn file_name(cycle: &Cycle) -> Option<String> {
    let file = cycle.file.as_ref()?;
    Some(Path::new(file).file_name()?.to_string_lossy().into_owned())
}

/// Lets a symbolic link point to a file beside it, in one step; what is there and no link stays.
fn point(link: &Path, target: Option<String>) -> Result<()> {
    let cannot = || format!("cannot point {} to the newest forecast", link.display());
    if std::fs::symlink_metadata(link).is_ok_and(|found| !found.is_symlink()) {
        return Err(Error::input(format!("{} is there and is no link of this service", link.display()))
            .hint("move it away"));
    }
    let Some(target) = target else {
        return match std::fs::remove_file(link) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error).context(cannot),
            _ => Ok(()),
        };
    };
    let name = link.file_name().unwrap_or_default().to_string_lossy();
    let pending: PathBuf = link.with_file_name(format!(".{name}.new"));
    match std::fs::remove_file(&pending) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error).context(cannot),
        _ => {}
    }
    std::os::unix::fs::symlink(&target, &pending).context(cannot)?;
    std::fs::rename(&pending, link).context(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::ledger::{CycleState, Made};
    use crate::serve::schedule::init;
    use crate::time::LeadTime;

    struct Place {
        _folder: tempfile::TempDir,
        folders: Folders,
        ledger: Ledger,
    }

    impl Place {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let folders = Folders { out: folder.path().join("out"), state: folder.path().join("state") };
            folders.make(&["a".into()]).unwrap();
            let ledger = Ledger::open(&folders.state).unwrap();
            Self { _folder: folder, folders, ledger }
        }

        fn publisher(&mut self) -> Publisher<'_> {
            Publisher { folders: &self.folders, ledger: &mut self.ledger }
        }

        /// As a worker leaves it.
        fn stage(&mut self, at: InitTime, text: &str) -> Staged {
            let path = Folders::staged("a", at);
            std::fs::write(self.folders.out.join(&path), text).unwrap();
            let digest = digest(&self.folders.out.join(&path)).unwrap();
            let staged = Staged { path, digest, memory: None, zarr: None };
            let made = Made {
                input: None,
                first_lead: 0,
                seconds: 0.0,
                provider: "cpu".into(),
                start: "cold".into(),
                late: false,
                remarks: Vec::new(),
                distribution: None,
            };
            self.ledger.plan("a", at, None).unwrap();
            self.ledger.begin("a", at).unwrap();
            self.ledger.intend("a", at, &staged, &made).unwrap();
            staged
        }

        fn text(&self, at: InitTime) -> String {
            std::fs::read_to_string(self.folders.out.join(Folders::forecast("a", at))).unwrap()
        }

        fn latest(&self) -> String {
            let link = std::fs::read_link(self.folders.published("a").join("latest.nc")).unwrap();
            link.to_string_lossy().into_owned()
        }
    }

    const DAY: i64 = 86_400;

    #[test]
    fn a_forecast_gets_its_name_the_pointer_follows_and_the_manifest_says_so() {
        let mut place = Place::new();
        for day in [2, 1] {
            let staged = place.stage(init(day * DAY), "text");
            place.publisher().publish("a", init(day * DAY), &staged).unwrap();
        }
        assert_eq!(place.latest(), "19700103T0000.nc", "the newest initial time, whichever came last");
        let manifest = std::fs::read(place.folders.published("a").join("manifest.json")).unwrap();
        let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
        assert_eq!(manifest["forecasts"][0]["file"], "19700103T0000.nc");
        assert_eq!(manifest["forecasts"].as_array().unwrap().len(), 2);
        let sum = "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1";
        assert_eq!(manifest["forecasts"][1]["sha256"], sum, "sha256 of 'text'");
    }

    #[test]
    fn a_file_of_somebody_else_is_never_replaced_and_ones_own_is() {
        let mut place = Place::new();
        let at = init(DAY);
        std::fs::write(place.folders.out.join(Folders::forecast("a", at)), "theirs").unwrap();
        let staged = place.stage(at, "ours");
        let error = place.publisher().publish("a", at, &staged).unwrap_err();
        assert!(error.to_string().contains("not written by this service"), "{error}");
        assert_eq!(place.text(at), "theirs");

        std::fs::remove_file(place.folders.out.join(Folders::forecast("a", at))).unwrap();
        place.publisher().publish("a", at, &staged).unwrap();
        place.ledger.rerun("a", at).unwrap();
        let staged = place.stage(at, "ours, again");
        place.publisher().publish("a", at, &staged).unwrap();
        assert_eq!(place.text(at), "ours, again");
    }

    #[test]
    fn a_crash_at_any_point_of_publishing_ends_in_one_publication() {
        let at = init(DAY);
        let of = |place: &Place| {
            let out = &place.folders.out;
            (out.join(Folders::staged("a", at)), out.join(Folders::forecast("a", at)))
        };
        // Before it had its name; when it had both; when it had only the final one.
        for crash in 0..3 {
            let mut place = Place::new();
            let staged = place.stage(at, "text");
            let (from, to) = of(&place);
            if crash > 0 {
                std::fs::hard_link(&from, &to).unwrap();
            }
            if crash > 1 {
                std::fs::remove_file(&from).unwrap();
            }
            assert!(place.publisher().recover("a", at, &staged).unwrap());
            assert_eq!((place.text(at).as_str(), from.exists()), ("text", false), "{crash}");
            assert_eq!(place.ledger.cycle("a", at).unwrap().unwrap().state, CycleState::Published);
        }
        let mut place = Place::new();
        let staged = place.stage(at, "text");
        std::fs::write(of(&place).0, "te").unwrap();
        assert!(!place.publisher().recover("a", at, &staged).unwrap(), "half of it is nothing");
    }

    #[test]
    fn the_oldest_go_first_and_only_ones_own() {
        let mut place = Place::new();
        for day in 1..=5 {
            let staged = place.stage(init(day * DAY), "text");
            place.publisher().publish("a", init(day * DAY), &staged).unwrap();
        }
        std::fs::write(place.folders.out.join(Folders::forecast("a", init(DAY))), "changed").unwrap();
        let keep = KeepPlan { cycles: Some(3), age: None, at_least: None, analyses: LeadTime::from_hours(1) };
        assert_eq!(place.publisher().tidy("a", &keep).unwrap(), ["a/19700103T0000.nc"]);
        assert_eq!(place.text(init(DAY)), "changed");
        let keep = KeepPlan { cycles: None, age: Some(LeadTime::from_hours(24)), ..keep };
        assert_eq!(place.publisher().tidy("a", &keep).unwrap(), ["a/19700104T0000.nc"]);
        assert_eq!(place.publisher().make_room("a", 1).unwrap().as_deref(), Some("a/19700105T0000.nc"));
        assert_eq!(place.publisher().make_room("a", 0).unwrap(), None, "the newest stays");
        assert_eq!(place.latest(), "19700106T0000.nc");
    }
}
