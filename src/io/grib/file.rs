//! An open GRIB file: fields decoded message by message, on all cores.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use super::super::info::{FileInfo, Role, VariableInfo};
use super::index::{Entry, Messages, Places};
use super::sections::Place;
use super::unpack;
use crate::error::{Context, Error, Result};

pub struct GribFile {
    name: String,
    file: File,
    size: u64,
    messages: Arc<Messages>,
    bytes_read: AtomicU64,
}

impl GribFile {
    /// Opens a file that was inspected.
    pub fn open(info: &FileInfo) -> Result<Self> {
        let name = info.path.display().to_string();
        let messages = info
            .messages
            .clone()
            .ok_or_else(|| Error::run(format!("{name}: was not inspected in this process")))?;
        let file = File::open(&info.path).context(|| format!("{name}: cannot open"))?;
        let size = file.metadata().context(|| format!("{name}: cannot stat"))?.len();
        Ok(Self { name, file, size, messages, bytes_read: AtomicU64::new(0) })
    }

    /// Reads the fields of one level at consecutive times (indices into `variable.times`) into `out`,
    /// `[time, lat * lon]`: south to north, eastward, SI units, NaN for missing, also where there is no message.
    pub fn read_many(
        &self,
        variable: &VariableInfo,
        level: usize,
        times: Range<usize>,
        out: &mut [f32],
    ) -> Result<()> {
        let points = variable.grid.points();
        let places = self
            .messages
            .get(&variable.name)
            .ok_or_else(|| Error::run(format!("{}: there is no variable '{}'", self.name, variable.name)))?;
        out.par_chunks_exact_mut(points).zip(times).try_for_each(|(out, time)| {
            let Some((start, _)) = variable.slab(time, level) else {
                return Err(Error::run(format!(
                    "{}: variable '{}' has {} times and {} levels; time {time}, level {level} was asked for",
                    self.name,
                    variable.name,
                    variable.time_count(),
                    variable.level_count()
                )));
            };
            let along = |role| variable.dimension(role).map_or(0, |(at, _)| start[at]);
            let Some(entry) = places.entry(along(Role::Time), along(Role::Level)) else {
                out.fill(f32::NAN);
                return Ok(());
            };
            let bytes = self.field(places, entry).map_err(|error| {
                let date = variable.times.get(time).map_or(String::new(), |t| format!(" at {t}"));
                let level = variable.levels.get(level).map_or(String::new(), |l| format!(" on {l} hPa"));
                error.context(format!("{}: variable '{}'{level}{date}", self.name, variable.name))
            })?;
            variable.decode(&bytes, out);
            Ok(())
        })
    }

    /// Bytes fetched from the file so far.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// The values of a message as float32 in the machine's byte order: rows as they are stored, columns eastward.
    fn field(&self, places: &Places, entry: Entry) -> Result<Vec<u8>> {
        let damaged = |what: String| {
            Error::input(format!("message {} {what}", entry.message))
                .hint("the file is damaged: copy or download it again")
        };
        let packing = self.section(entry.data.packing, 5)?;
        let bitmap = entry.data.bitmap.map(|place| self.section(place, 6)).transpose()?;
        let values = self.section(entry.data.values, 7)?;
        let points = places.shape.points();
        let values = unpack::unpack(&packing, bitmap.as_deref(), &values, points).map_err(damaged)?;
        Ok(places.shape.arrange(values).iter().flat_map(|x| x.to_ne_bytes()).collect())
    }

    /// A section, which is where the index found it unless the file has changed under us.
    fn section(&self, place: Place, number: u8) -> Result<Vec<u8>> {
        let changed = || {
            Error::input("the file has changed since it was indexed")
                .hint("start again, after whoever writes it has finished")
        };
        if place.offset.checked_add(place.length.into()).is_none_or(|end| end > self.size) {
            return Err(changed());
        }
        let mut bytes = vec![0; place.length as usize];
        self.file
            .read_exact_at(&mut bytes, place.offset)
            .context(|| format!("{}: cannot be read", self.name))?;
        self.bytes_read.fetch_add(place.length.into(), Ordering::Relaxed);
        if bytes.get(..5) != Some(&[&place.length.to_be_bytes()[..], &[number]].concat()[..]) {
            return Err(changed());
        }
        Ok(bytes)
    }
}
