//! Reads fields: any file in, canonical orientation and SI units out.

use std::ops::Range;
use std::path::PathBuf;

use super::chunks::DirectFile;
use super::grib::GribFile;
use super::info::{FileInfo, Format, VariableInfo};
use super::inspect::fingerprint;
use super::slabs::{ClassicSlabs, LibrarySlabs, Slabs};
use super::stored::StoredField;
use crate::error::{Error, Result};

/// An open file.
pub struct Reader {
    name: String,
    /// Reads on all cores what can be read without the library.
    direct: Option<DirectFile>,
    /// Reads GRIB files, also on all cores.
    grib: Option<GribFile>,
    /// Reads everything else; opened when it is needed.
    source: Option<Box<dyn Slabs>>,
    path: PathBuf,
    format: Format,
    /// The slab as the file stores it, kept between reads.
    stored: Vec<u8>,
    /// By `source`.
    bytes_read: u64,
}

impl Reader {
    /// Opens a file that [`inspect_file`](super::inspect_file) understood, and refuses it when it has changed since.
    pub fn open(info: &FileInfo) -> Result<Self> {
        let name = info.path.display().to_string();
        if fingerprint(&info.path)? != info.fingerprint {
            return Err(Error::input(format!("{name}: the file has changed since it was indexed"))
                .hint("start again, after whoever writes it has finished"));
        }
        Ok(match info.format {
            Format::Grib2 => Self { grib: Some(GribFile::open(info)?), ..Self::new(info) },
            _ => Self { direct: DirectFile::open(info)?, ..Self::new(info) },
        })
    }

    /// Reads through `source` instead of the plain readers.
    pub fn with_source(info: &FileInfo, source: Box<dyn Slabs>) -> Self {
        Self { source: Some(source), ..Self::new(info) }
    }

    fn new(info: &FileInfo) -> Self {
        let (path, format) = (info.path.clone(), info.format);
        Self {
            name: path.display().to_string(),
            direct: None,
            grib: None,
            source: None,
            path,
            format,
            stored: Vec::new(),
            bytes_read: 0,
        }
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
        self.read_many(variable, level, time..time.saturating_add(1), out)
    }

    /// The fields of one level at consecutive times, decoded on all cores.
    ///
    /// Overwrites `out`, `[time, lat * lon]`, as [`read`](Self::read) does for each of them.
    pub fn read_many(
        &mut self,
        variable: &VariableInfo,
        level: usize,
        times: Range<usize>,
        out: &mut [f32],
    ) -> Result<()> {
        self.check(variable)?;
        let points = variable.grid.points();
        if Some(out.len()) != points.checked_mul(times.len()) {
            return Err(Error::run(format!(
                "{}: {} fields of '{}' have {points} points each, the buffer {} in all",
                self.name,
                times.len(),
                variable.name,
                out.len()
            )));
        }
        if let Some(grib) = &self.grib {
            return grib.read_many(variable, level, times, out);
        }
        if let Some(direct) = &mut self.direct
            && direct.read_many(variable, level, times.clone(), out)?
        {
            return Ok(());
        }
        times
            .zip(out.chunks_exact_mut(points))
            .try_for_each(|(time, out)| self.slab(variable, time, level, out))
    }

    /// The fields of one level at consecutive times as the file stores them, to be decoded elsewhere. `None` where only
    /// [`read_many`](Self::read_many) can give them.
    pub fn stored(
        &mut self,
        variable: &VariableInfo,
        level: usize,
        times: Range<usize>,
    ) -> Result<Option<Vec<StoredField>>> {
        self.check(variable)?;
        match &mut self.direct {
            Some(direct) => direct.stored(variable, level, times),
            None => Ok(None),
        }
    }

    /// Bytes fetched from the file so far: packed and deflated as they are.
    pub fn bytes_read(&self) -> u64 {
        let direct = self.direct.as_ref().map_or(0, DirectFile::bytes_read);
        self.bytes_read + direct + self.grib.as_ref().map_or(0, GribFile::bytes_read)
    }

    fn check(&self, variable: &VariableInfo) -> Result<()> {
        match &variable.refused {
            None => Ok(()),
            Some(sentence) => Err(Error::input(format!("{}: {sentence}", self.name))
                .hint("say its unit in the source (unit = \"...\"), or correct the file with ncatted")),
        }
    }

    /// One field through [`Slabs`].
    fn slab(&mut self, variable: &VariableInfo, time: usize, level: usize, out: &mut [f32]) -> Result<()> {
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
        let source = match &mut self.source {
            Some(source) => source,
            None => self.source.insert(match self.format {
                Format::Hdf5 => Box::new(LibrarySlabs::open(&self.path)?),
                Format::Classic | Format::Offset64 | Format::Cdf5 => {
                    Box::new(ClassicSlabs::open(&self.path)?)
                }
                Format::Grib2 => {
                    return Err(Error::run(format!("{}: GRIB has messages, not slabs", self.name)));
                }
            }),
        };
        self.stored.resize(variable.slab_bytes(), 0);
        source.read(&variable.name, &start, &count, &mut self.stored).map_err(|e| e.context(at()))?;
        self.bytes_read += self.stored.len() as u64;
        variable.decode(&self.stored, out);
        Ok(())
    }
}
