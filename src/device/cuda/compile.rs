//! Kernels for the card that is there: compiled once, then kept in a cache on disk.

use std::env;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::nvrtc::{Nvrtc, Output};
use super::sources::{COMMON, Source};
use crate::error::Result;

/// How the numbers of a module are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Numbers {
    Double,
    Single,
    /// Activations in 16 bits, eight of them for the significand; all else single.
    Bf16,
    /// Activations in 16 bits, eleven of them for the significand; all else single.
    Fp16,
}

impl Numbers {
    pub const ALL: [Self; 4] = [Self::Double, Self::Single, Self::Bf16, Self::Fp16];

    /// Whether activations are stored in 16 bits.
    pub fn is_narrow(self) -> bool {
        matches!(self, Self::Bf16 | Self::Fp16)
    }

    fn defines(self) -> &'static [&'static str] {
        match self {
            Self::Double => &["-DREAL=double"],
            Self::Single => &["-DREAL=float"],
            Self::Bf16 => &["-DREAL=float", "-DACT_BF16"],
            Self::Fp16 => &["-DREAL=float", "-DACT_FP16"],
        }
    }
}

/// The options that `source` is compiled with.
fn options(architecture: &str, numbers: Numbers) -> Vec<String> {
    let mut options: Vec<String> =
        ["--std=c++17", "-lineinfo", "--ptxas-options=-v"].map(str::to_owned).into();
    options.push(format!("--gpu-architecture={architecture}"));
    options.extend(numbers.defines().iter().map(|&define| define.to_owned()));
    options
}

/// Compiles a source, whatever the cache holds.
pub fn compile(source: &Source, architecture: &str, numbers: Numbers) -> Result<Output> {
    let text = format!("#include \"{}\"\n#line 1\n{}", COMMON.name, source.text);
    Nvrtc::get()?.compile(source.name, &text, &[(COMMON.name, COMMON.text)], &options(architecture, numbers))
}

/// The machine code of a source, from the cache where it is there and whole.
pub fn cubin(source: &Source, architecture: &str, numbers: Numbers) -> Result<Vec<u8>> {
    let cache = folder().map(|folder| Cache { folder });
    let (major, minor) = Nvrtc::get()?.version;
    let options = options(architecture, numbers).join(" ");
    let key = key(&[&format!("nvrtc {major}.{minor}"), &options, COMMON.text, source.name, source.text]);
    if let Some(known) = cache.as_ref().and_then(|cache| cache.read(&key)) {
        return Ok(known);
    }
    let made = compile(source, architecture, numbers)?.cubin;
    if let Some(cache) = cache {
        cache.write(&key, &made);
    }
    Ok(made)
}

/// Where compiled kernels and measured choices are kept; none where there is no home.
pub fn folder() -> Option<PathBuf> {
    if let Some(folder) = env::var_os("WXSIM_CACHE") {
        return Some(folder.into());
    }
    let base = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let base = base.or_else(|| Some(Path::new(&env::var_os("HOME")?).join(".cache")))?;
    Some(base.join("wxsim"))
}

/// A name that is different whenever any of the parts is.
fn key(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hex(&hash.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Files named by what they were made from: the hash of their content, then the content. One that was cut off or changed
/// is made again; one that cannot be written costs the next start a second.
struct Cache {
    folder: PathBuf,
}

const HASH: usize = 32;

impl Cache {
    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}.cubin"))
    }

    fn read(&self, key: &str) -> Option<Vec<u8>> {
        let mut content = fs::read(self.path(key)).ok()?;
        let (hash, body) = content.split_at_checked(HASH)?;
        if Sha256::digest(body).as_slice() != hash {
            return None;
        }
        content.drain(..HASH);
        Some(content)
    }

    /// Appears whole or not at all, also when several processes write it at once.
    fn write(&self, key: &str, body: &[u8]) {
        let written = || -> std::io::Result<()> {
            fs::create_dir_all(&self.folder)?;
            let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
            file.write_all(&Sha256::digest(body))?;
            file.write_all(body)?;
            file.persist(self.path(key))?;
            Ok(())
        };
        // A cache that is read-only or full is no reason not to compute.
        let _ = written();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_gives_back_what_it_was_given_and_nothing_that_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache { folder: folder.path().join("new") };
        assert_eq!(cache.read("a"), None);
        cache.write("a", b"machine code");
        assert_eq!(cache.read("a").unwrap(), b"machine code");
        for damage in [b"short".to_vec(), [&[0; HASH][..], b"machine code"].concat(), Vec::new()] {
            fs::write(cache.path("a"), damage).unwrap();
            assert_eq!(cache.read("a"), None);
        }
        cache.write("a", b"again");
        assert_eq!(cache.read("a").unwrap(), b"again");
    }

    #[test]
    fn a_key_depends_on_every_part_and_on_where_parts_end() {
        let keys = [key(&["ab", "c"]), key(&["a", "bc"]), key(&["ab", "d"]), key(&["abc"])];
        for (i, one) in keys.iter().enumerate() {
            assert!(keys[..i].iter().all(|other| other != one));
        }
    }
}
