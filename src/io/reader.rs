//! Reads fields: any file in, canonical orientation and SI units out.

use std::path::Path;

use super::info::{FileInfo, Format, VariableInfo};
use super::inspect::fingerprint;
use super::slabs::{ClassicSlabs, LibrarySlabs, Slabs};
use crate::error::{Error, Result};

/// An open file.
pub struct Reader {
    name: String,
    source: Box<dyn Slabs>,
    /// The slab as the file stores it, kept between reads.
    stored: Vec<u8>,
}

impl Reader {
    /// Opens a file that [`inspect_file`](super::inspect_file) understood, and refuses it when it has changed since.
    pub fn open(info: &FileInfo) -> Result<Self> {
        let name = info.path.display().to_string();
        if fingerprint(&info.path)? != info.fingerprint {
            return Err(Error::input(format!("{name}: the file has changed since it was indexed"))
                .hint("start again, after whoever writes it has finished"));
        }
        Ok(Self { source: open(&info.path, info.format)?, name, stored: Vec::new() })
    }

    /// Reads through `source` instead of the plain readers.
    pub fn with_source(info: &FileInfo, source: Box<dyn Slabs>) -> Self {
        Self { name: info.path.display().to_string(), source, stored: Vec::new() }
    }

    /// The field of one time and level (indices into `variable.times` and `variable.levels`; 0 where there are none).
    ///
    /// Overwrites `out`, `[lat * lon]` of `variable.grid`: south to north, eastward, `variable.units`, NaN = missing.
    pub fn read(
        &mut self,
        variable: &VariableInfo,
        time: usize,
        level: usize,
        out: &mut [f32],
    ) -> Result<()> {
        if let Some(sentence) = &variable.refused {
            return Err(Error::input(format!("{}: {sentence}", self.name))
                .hint("say its unit in the source (unit = \"...\"), or correct the file with ncatted"));
        }
        let at = || {
            let date = variable.times.get(time).map_or(String::new(), |t| format!(" at {t}"));
            let level = variable.levels.get(level).map_or(String::new(), |l| format!(" on {l} hPa"));
            format!("{}: variable '{}'{level}{date}", self.name, variable.name)
        };
        let Some((start, count)) = variable.slab(time, level) else {
            return Err(Error::run(format!(
                "{}: variable '{}' has {} times and {} levels; time {time}, level {level} was asked for",
                self.name,
                variable.name,
                variable.time_count(),
                variable.level_count()
            )));
        };
        if out.len() != variable.grid.points() {
            return Err(Error::run(format!(
                "{}: the field has {} points, the buffer {}",
                at(),
                variable.grid.points(),
                out.len()
            )));
        }
        self.stored.resize(variable.slab_bytes(), 0);
        self.source.read(&variable.name, &start, &count, &mut self.stored).map_err(|e| e.context(at()))?;
        variable.decode(&self.stored, out);
        Ok(())
    }
}

fn open(path: &Path, format: Format) -> Result<Box<dyn Slabs>> {
    Ok(match format {
        Format::Classic | Format::Offset64 | Format::Cdf5 => Box::new(ClassicSlabs::open(path)?),
        Format::Hdf5 => Box::new(LibrarySlabs::open(path)?),
    })
}
