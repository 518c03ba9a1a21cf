//! Zarr stores that are published: folders that get their name, are known again and go as one thing.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::cycle::digest;
use super::ledger::Store;
use crate::error::{Context, Result};
use crate::io::atomic::write_whole;

/// The list of a store's files with their checksums, beside it: `sha256sum -c` reads it.
pub fn sums(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(".sha256");
    name.into()
}

/// Writes the list of a whole store; its digest is the store's.
pub fn seal(store: &Path) -> Result<String> {
    let text = list(store)?;
    let path = sums(store);
    write_whole(&path, |out| {
        out.write_all(text.as_bytes()).context(|| format!("cannot write {}", path.display()))
    })?;
    Ok(digest_of(&text))
}

/// Whether a store is whole and the one with this digest.
pub fn is(store: &Path, digest: &str) -> bool {
    store.is_dir() && list(store).is_ok_and(|text| digest_of(&text) == digest)
}

/// Whether a store is as large and as old as it was, or else has the same bytes.
pub fn is_still(path: &Path, store: &Store) -> bool {
    let same = |found: &Store| (found.size, found.modified) == (store.size, store.modified);
    path.is_dir() && (measure(path, &store.digest).is_ok_and(|found| same(&found)) || is(path, &store.digest))
}

/// How large and old it is.
pub fn measure(path: &Path, digest: &str) -> Result<Store> {
    let mut store = Store { digest: digest.into(), size: 0, modified: 0 };
    for file in files(path)?.into_values() {
        let meta = std::fs::metadata(&file).context(|| format!("cannot read {}", file.display()))?;
        store.size += meta.len();
        let modified = meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec());
        store.modified = store.modified.max(modified);
    }
    Ok(store)
}

/// Removes a store and its list; what is left where that is cut short has no name that a reader would look for.
pub fn remove(store: &Path, staging: &Path) -> Result<()> {
    let cannot = || format!("cannot remove {}", store.display());
    let aside = staging.join(format!("gone-{}", store.file_name().unwrap_or_default().to_string_lossy()));
    if aside.exists() {
        std::fs::remove_dir_all(&aside).context(cannot)?;
    }
    std::fs::rename(store, &aside).context(cannot)?;
    std::fs::remove_dir_all(&aside).context(cannot)?;
    match std::fs::remove_file(sums(store)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error).context(cannot),
        _ => Ok(()),
    }
}

fn list(store: &Path) -> Result<String> {
    let lines = files(store)?.into_iter().map(|(name, path)| Ok(format!("{}  {name}\n", digest(&path)?)));
    lines.collect()
}

/// By name, with the store's before it.
fn files(store: &Path) -> Result<BTreeMap<String, PathBuf>> {
    fn walk(folder: &Path, prefix: &str, found: &mut BTreeMap<String, PathBuf>) -> std::io::Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = format!("{prefix}/{}", entry.file_name().to_string_lossy());
            match entry.file_type()?.is_dir() {
                true => walk(&entry.path(), &name, found)?,
                false => drop(found.insert(name, entry.path())),
            }
        }
        Ok(())
    }
    let mut found = BTreeMap::new();
    let name = store.file_name().unwrap_or_default().to_string_lossy().into_owned();
    walk(store, &name, &mut found).context(|| format!("cannot read {}", store.display()))?;
    Ok(found)
}

fn digest_of(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}
