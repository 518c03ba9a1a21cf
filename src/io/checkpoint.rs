//! Checkpoints: a folder `step-N` with `tensors.safetensors`, `state.json` and, when both are safely on the disk, `DONE`.
//! Several writers share the tensors among themselves, in files `tensors-1-of-8.safetensors` and so on.
//!
//! `DONE` is written last and holds the size and SHA-256 of all others. A folder without it was interrupted and is
//! ignored; a folder whose files do not agree with it is damaged and refused.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use safetensors::{Dtype, SafeTensors, View};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{Context, Error, Result, chain};
use crate::field::Layout;
use crate::grid::Orientation;
use crate::io::atomic::{sync_folder, write_whole};
use crate::time::LeadTime;

/// Numbers with a shape, as they lie in a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Outermost first.
    pub shape: Vec<usize>,
    pub values: Values,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    F32(Vec<f32>),
    F64(Vec<f64>),
    I64(Vec<i64>),
    U64(Vec<u64>),
}

/// By name, in the order in which files list them.
pub type Tensors = BTreeMap<String, Tensor>;

/// What a checkpoint says about the model in it, the part of `state.json` that every reader needs. The rooms describe
/// themselves; what they say means nothing here.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Card {
    /// Version of this format; others are refused.
    pub format: u32,
    /// The wxsim that wrote it.
    pub wxsim: String,
    /// Quantities and grid of the states that the model reads and writes.
    pub layout: Layout,
    /// How the training data lay in their files, for output files to repeat.
    pub orientation: Orientation,
    /// Length of one model step.
    pub step: LeadTime,
    /// The network: `model` reads it.
    pub architecture: serde_json::Value,
    /// Static fields and time forcings: `preprocess` reads it.
    pub inputs: serde_json::Value,
    /// The normaliser, beside its tensors: `preprocess` reads it.
    pub normalizer: serde_json::Value,
}

/// The format that this program writes and reads.
pub const FORMAT: u32 = 1;

/// A checkpoint read back.
#[derive(Debug)]
pub struct Checkpoint {
    pub path: PathBuf,
    pub tensors: Tensors,
    pub state_json: String,
}

/// What [`latest_complete`] found, with a sentence for everything that it passed over.
#[derive(Debug, Default)]
pub struct Latest {
    pub checkpoint: Option<Checkpoint>,
    pub remarks: Vec<String>,
}

/// Files of tensors begin and end so.
const TENSORS: &str = "tensors";
const SAFE: &str = ".safetensors";
const STATE: &str = "state.json";
const DONE: &str = "DONE";

/// Size and hash of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Seal {
    bytes: u64,
    sha256: String,
}

/// The files of a checkpoint that were written.
pub type Seals = BTreeMap<String, Seal>;

/// Writes the checkpoint folder `path`: whole, or without `DONE`. A folder of that name is replaced.
pub fn save(path: &Path, tensors: &Tensors, state_json: &str) -> Result<()> {
    begin(path)?;
    let seals = write_part(path, (0, 1), tensors)?;
    finish(path, seals, state_json)
}

fn cannot_write(path: &Path) -> impl Fn() -> String + '_ {
    move || format!("cannot write the checkpoint {}", path.display())
}

/// Begins a checkpoint that several write together: one of them does this, before the others begin.
pub fn begin(path: &Path) -> Result<()> {
    let partial = partial_name(path)?;
    remove(&partial).and_then(|()| std::fs::create_dir_all(&partial)).context(cannot_write(path))
}

/// Writes the tensors of one of several writers, all of other names, to a checkpoint that was [begun](begin); one without
/// tensors writes nothing.
pub fn write_part(path: &Path, (writer, of): (usize, usize), tensors: &Tensors) -> Result<Seals> {
    let cannot = cannot_write(path);
    if tensors.is_empty() {
        return Ok(Seals::new());
    }
    let name = match of {
        1 => format!("{TENSORS}{SAFE}"),
        _ => format!("{TENSORS}-{}-of-{of}{SAFE}", writer + 1),
    };
    let bytes = safetensors::serialize(tensors, None)
        .map_err(|error| Error::run(cannot()).caused_by(error.to_string()))?;
    write_whole(&partial_name(path)?.join(&name), |file| file.write_all(&bytes).context(&cannot))?;
    Ok([(name, Seal::of(&bytes))].into())
}

/// Ends a checkpoint, when all have written their parts: `seals` are those of all. One of them does this.
pub fn finish(path: &Path, mut seals: Seals, state_json: &str) -> Result<()> {
    let cannot = cannot_write(path);
    let partial = partial_name(path)?;
    write_whole(&partial.join(STATE), |file| file.write_all(state_json.as_bytes()).context(&cannot))?;
    seals.insert(STATE.to_owned(), Seal::of(state_json.as_bytes()));
    // Losing a half-removed old folder costs nothing: without DONE it does not count.
    remove(&path.join(DONE)).context(&cannot)?;
    remove(path).context(&cannot)?;
    std::fs::rename(&partial, path).context(&cannot)?;
    sync_folder(path.parent().unwrap_or(Path::new(".")))?;
    let done = serde_json::to_vec_pretty(&seals).map_err(|error| Error::run(cannot()).caused_by(error))?;
    write_whole(&path.join(DONE), |file| file.write_all(&done).context(&cannot))
}

/// Reads the checkpoint folder `path`, refusing one that is unfinished or damaged.
pub fn load(path: &Path) -> Result<Checkpoint> {
    if !path.is_dir() {
        return Err(Error::input(format!("there is no checkpoint {}", path.display())));
    }
    if !is_complete(path) {
        return Err(Error::input(format!("the checkpoint {} is unfinished: it has no DONE", path.display()))
            .hint("its writing was interrupted; choose another one of the same run"));
    }
    let damaged = |why: String| {
        Error::input(format!("the checkpoint {} is damaged: {why}", path.display()))
            .hint("choose another one of the same run, or copy it again from where it came")
    };
    let done = std::fs::read(path.join(DONE)).context(|| format!("cannot read {}", path.display()))?;
    let seals: Seals =
        serde_json::from_slice(&done).map_err(|error| damaged(format!("DONE does not read: {error}")))?;
    let sealed = |name: &str| -> Result<Vec<u8>> {
        let bytes = std::fs::read(path.join(name)).map_err(|error| damaged(format!("{name}: {error}")))?;
        let expected = seals.get(name).ok_or_else(|| damaged(format!("DONE does not name {name}")))?;
        let found = Seal::of(&bytes);
        if found.bytes != expected.bytes {
            return Err(damaged(format!("{name} has {} bytes, not {}", found.bytes, expected.bytes)));
        }
        if found != *expected {
            return Err(damaged(format!("the bytes of {name} have changed since it was written")));
        }
        Ok(bytes)
    };
    let mut tensors = Tensors::new();
    for name in seals.keys().filter(|name| name.starts_with(TENSORS) && name.ends_with(SAFE)) {
        let bytes = sealed(name)?;
        let views = SafeTensors::deserialize(&bytes).map_err(|error| damaged(format!("{name}: {error}")))?;
        for (name, view) in views.iter() {
            tensors.insert(name.to_owned(), tensor(&view).map_err(&damaged)?);
        }
    }
    let state_json =
        String::from_utf8(sealed(STATE)?).map_err(|_| damaged(format!("{STATE} is not UTF-8")))?;
    Ok(Checkpoint { path: path.to_owned(), tensors, state_json })
}

/// The newest complete and undamaged checkpoint in a folder of them; an error when there are complete ones but all are
/// damaged.
pub fn latest_complete(folder: &Path) -> Result<Latest> {
    let mut latest = Latest::default();
    let mut damage = None;
    for (_, path) in steps(folder)?.into_iter().rev() {
        if !is_complete(&path) {
            latest.remarks.push(format!("ignoring the unfinished checkpoint {}", path.display()));
            continue;
        }
        match load(&path) {
            Ok(checkpoint) => {
                latest.checkpoint = Some(checkpoint);
                return Ok(latest);
            }
            Err(error) => {
                latest.remarks.push(format!("{}; going back to the one before", chain(&error)));
                damage = damage.or(Some(error));
            }
        }
    }
    damage.map_or(Ok(latest), Err)
}

/// The checkpoint folders `step-N` with their steps, oldest first, complete or not.
pub fn steps(folder: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let cannot = || format!("cannot list {}", folder.display());
    let mut found = Vec::new();
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(found),
        entries => entries.context(cannot)?,
    };
    for entry in entries {
        let path = entry.context(cannot)?.path();
        if let Some(step) = step_of(&path) {
            found.push((step, path));
        }
    }
    found.sort();
    Ok(found)
}

/// The step in a checkpoint folder's name.
pub fn step_of(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_prefix("step-")?.parse().ok()
}

/// Whether a checkpoint folder carries its mark.
pub fn is_complete(path: &Path) -> bool {
    path.join(DONE).is_file()
}

/// Removes all checkpoints but the newest `keep` and those of the steps in `protected`, and what interrupted writers left.
pub fn prune(folder: &Path, keep: usize, protected: &[u64]) -> Result<()> {
    let cannot = || format!("cannot remove old checkpoints in {}", folder.display());
    let steps = steps(folder)?;
    for (step, path) in &steps[..steps.len().saturating_sub(keep.max(1))] {
        if !protected.contains(step) {
            // The mark first: a half-removed folder must not look complete.
            remove(&path.join(DONE)).context(cannot)?;
            remove(path).context(cannot)?;
        }
    }
    for entry in std::fs::read_dir(folder).context(cannot)? {
        let path = entry.context(cannot)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with(".step-") && name.ends_with(".part") {
            remove(&path).context(cannot)?;
        }
    }
    Ok(())
}

impl Card {
    /// Reads the card in a checkpoint's `state.json`.
    pub fn read(checkpoint: &Checkpoint) -> Result<Self> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        #[derive(Deserialize)]
        struct State<C> {
            model: C,
        }
        let unreadable = |error: serde_json::Error| {
            Error::input(format!("{} does not describe a model: {error}", checkpoint.path.display()))
        };
        let State { model: Format { format } } =
            serde_json::from_str(&checkpoint.state_json).map_err(unreadable)?;
        if format != FORMAT {
            return Err(Error::input(format!(
                "{} is of checkpoint format {format}; this wxsim reads format {FORMAT}",
                checkpoint.path.display()
            ))
            .hint("use the version of wxsim named in its state.json"));
        }
        let state: State<Card> = serde_json::from_str(&checkpoint.state_json).map_err(unreadable)?;
        Ok(state.model)
    }
}

impl Tensor {
    pub fn f32(shape: Vec<usize>, values: Vec<f32>) -> Self {
        Self { shape, values: Values::F32(values) }
    }

    pub fn f64(shape: Vec<usize>, values: Vec<f64>) -> Self {
        Self { shape, values: Values::F64(values) }
    }

    /// The numbers, when they are float32.
    pub fn as_f32(&self) -> Option<&[f32]> {
        match &self.values {
            Values::F32(values) => Some(values),
            _ => None,
        }
    }

    /// The numbers, when they are float64.
    pub fn as_f64(&self) -> Option<&[f64]> {
        match &self.values {
            Values::F64(values) => Some(values),
            _ => None,
        }
    }
}

impl Seal {
    fn of(bytes: &[u8]) -> Self {
        let sha256 = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        Self { bytes: bytes.len() as u64, sha256 }
    }
}

impl View for &Tensor {
    fn dtype(&self) -> Dtype {
        match self.values {
            Values::F32(_) => Dtype::F32,
            Values::F64(_) => Dtype::F64,
            Values::I64(_) => Dtype::I64,
            Values::U64(_) => Dtype::U64,
        }
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Owned(match &self.values {
            Values::F32(values) => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Values::F64(values) => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Values::I64(values) => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Values::U64(values) => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        })
    }

    fn data_len(&self) -> usize {
        match &self.values {
            Values::F32(values) => values.len() * 4,
            Values::F64(values) => values.len() * 8,
            Values::I64(values) => values.len() * 8,
            Values::U64(values) => values.len() * 8,
        }
    }
}

/// Copies a tensor out of the file; the safetensors reader has checked that shape and bytes agree.
fn tensor(view: &safetensors::tensor::TensorView<'_>) -> Result<Tensor, String> {
    let bytes = view.data();
    let words = || bytes.as_chunks::<8>().0.iter();
    let values = match view.dtype() {
        Dtype::F32 => Values::F32(bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()),
        Dtype::F64 => Values::F64(words().map(|b| f64::from_le_bytes(*b)).collect()),
        Dtype::I64 => Values::I64(words().map(|b| i64::from_le_bytes(*b)).collect()),
        Dtype::U64 => Values::U64(words().map(|b| u64::from_le_bytes(*b)).collect()),
        other => return Err(format!("a tensor of type {other:?}, which wxsim does not write")),
    };
    Ok(Tensor { shape: view.shape().to_vec(), values })
}

fn partial_name(path: &Path) -> Result<PathBuf> {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .ok_or_else(|| Error::input(format!("'{}' is not a name for a checkpoint", path.display())))?;
    Ok(path.with_file_name(format!(".{name}.part")))
}

/// Removes a file or folder; one that is not there is fine.
fn remove(path: &Path) -> std::io::Result<()> {
    let result = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "tensors.safetensors";

    fn tensors(seed: f32) -> Tensors {
        BTreeMap::from([
            ("a".to_owned(), Tensor::f32(vec![2, 3], (0..6).map(|i| i as f32 + seed).collect())),
            ("b".to_owned(), Tensor::f64(vec![1], vec![f64::from(seed) * 0.1])),
            ("c".to_owned(), Tensor { shape: vec![2], values: Values::I64(vec![-1, i64::MAX]) }),
            ("d".to_owned(), Tensor { shape: vec![0], values: Values::U64(vec![]) }),
        ])
    }

    #[test]
    fn what_was_saved_is_loaded_bit_for_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("step-7");
        save(&path, &tensors(0.3), "{\"step\":7}").unwrap();
        let read = load(&path).unwrap();
        assert_eq!(read.tensors, tensors(0.3));
        assert_eq!(read.state_json, "{\"step\":7}");
        save(&path, &tensors(0.4), "{}").unwrap();
        assert_eq!(load(&path).unwrap().tensors, tensors(0.4), "saving again replaces");
    }

    /// Everything a kill can leave: any subset of the files in the order of writing, under either folder name.
    #[test]
    fn a_checkpoint_interrupted_between_any_two_files_is_ignored_and_named() {
        let whole = tempfile::tempdir().unwrap();
        save(&whole.path().join("step-9"), &tensors(0.0), "{}").unwrap();
        for (name, files) in [
            (".step-9.part", &[][..]),
            (".step-9.part", &[WHOLE]),
            (".step-9.part", &[WHOLE, STATE]),
            ("step-9", &[WHOLE, STATE]),
            ("step-9", &[STATE]),
        ] {
            let folder = tempfile::tempdir().unwrap();
            save(&folder.path().join("step-5"), &tensors(5.0), "{}").unwrap();
            let left = folder.path().join(name);
            std::fs::create_dir(&left).unwrap();
            for file in files {
                std::fs::copy(whole.path().join("step-9").join(file), left.join(file)).unwrap();
            }
            let latest = latest_complete(folder.path()).unwrap();
            assert_eq!(latest.checkpoint.unwrap().path, folder.path().join("step-5"));
            assert_eq!(latest.remarks.len(), usize::from(name == "step-9"), "{:?}", latest.remarks);
            save(&folder.path().join("step-9"), &tensors(9.0), "{}").unwrap();
            prune(folder.path(), 1, &[]).unwrap();
            let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
            assert_eq!(names.len(), 1, "only step-9 stays");
        }
    }

    #[test]
    fn any_flipped_byte_or_missing_end_is_refused_and_the_one_before_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("step-5"), folder.path().join("step-10"));
        save(&old, &tensors(5.0), "{}").unwrap();
        save(&new, &tensors(10.0), "{\"a\":1}").unwrap();
        for name in [WHOLE, STATE, DONE] {
            let bytes = std::fs::read(new.join(name)).unwrap();
            for position in (0..bytes.len()).step_by(7) {
                let mut bad = bytes.clone();
                bad[position] ^= 0x10;
                std::fs::write(new.join(name), &bad).unwrap();
                let latest = latest_complete(folder.path()).unwrap();
                // A flipped blank of DONE's layout changes nothing that it says; everything else must be noticed.
                let path = latest.checkpoint.unwrap().path;
                assert!(path == old || name == DONE, "{name} byte {position}");
                std::fs::write(new.join(name), &bytes[..position]).unwrap();
                assert!(load(&new).is_err(), "{name} cut at {position}");
            }
            std::fs::write(new.join(name), &bytes).unwrap();
        }
        assert!(load(&new).is_ok());
        std::fs::write(new.join(WHOLE), b"short").unwrap();
        std::fs::write(old.join(STATE), b"short").unwrap();
        let error = latest_complete(folder.path()).unwrap_err();
        assert!(error.to_string().contains("step-10 is damaged"), "{error}");
    }

    #[test]
    fn pruning_keeps_the_newest_and_the_protected() {
        let folder = tempfile::tempdir().unwrap();
        for step in [1, 2, 30, 4, 100] {
            save(&folder.path().join(format!("step-{step}")), &Tensors::new(), "{}").unwrap();
        }
        prune(folder.path(), 2, &[2]).unwrap();
        let left: Vec<u64> = steps(folder.path()).unwrap().into_iter().map(|(step, _)| step).collect();
        assert_eq!(left, [2, 30, 100]);
    }

    #[test]
    fn writers_share_the_tensors_and_a_lost_part_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("step-5"), folder.path().join("step-6"));
        save(&old, &tensors(5.0), "{}").unwrap();
        let all = tensors(6.0);
        let part = |names: &[&str]| -> Tensors {
            names.iter().map(|&name| (name.to_owned(), all[name].clone())).collect()
        };
        begin(&new).unwrap();
        let mut seals = Seals::new();
        // The third of them has nothing to write.
        for (writer, names) in [&["b", "c"][..], &["a", "d"], &[]].into_iter().enumerate() {
            // Whoever is killed in between leaves the checkpoint before.
            assert_eq!(latest_complete(folder.path()).unwrap().checkpoint.unwrap().path, old);
            seals.extend(write_part(&new, (writer, 3), &part(names)).unwrap());
        }
        assert_eq!(
            seals.keys().collect::<Vec<_>>(),
            ["tensors-1-of-3.safetensors", "tensors-2-of-3.safetensors"]
        );
        finish(&new, seals, "{}").unwrap();
        assert_eq!(load(&new).unwrap().tensors, all);

        std::fs::remove_file(new.join("tensors-2-of-3.safetensors")).unwrap();
        let error = load(&new).unwrap_err();
        assert!(error.to_string().contains("tensors-2-of-3.safetensors"), "{error}");
        assert_eq!(latest_complete(folder.path()).unwrap().checkpoint.unwrap().path, old);
    }
}
