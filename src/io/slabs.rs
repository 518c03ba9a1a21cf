//! Raw numbers out of a file: the seam behind which a faster source can be put.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::header;
use super::info::Number;
use super::library;
use super::schema::{RawVariable, Schema};
use crate::error::{Context, Error, Result};

/// Gives hyperslabs of stored numbers, not unpacked, in the machine's byte order.
pub trait Slabs: Send {
    /// Fills `out` (exactly the slab's bytes) with `count` entries from `start` along each dimension of the file.
    fn read(&mut self, variable: &str, start: &[usize], count: &[usize], out: &mut [u8]) -> Result<()>;
}

/// A classic file, read without any library: its numbers lie where the header says, big-endian.
pub struct ClassicSlabs {
    file: File,
    name: String,
    schema: Schema,
}

impl ClassicSlabs {
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let file = File::open(path).context(|| format!("{name}: cannot open"))?;
        let size = file.metadata().context(|| format!("{name}: cannot stat"))?.len();
        let schema = header::parse(&file, size, &name)?;
        Ok(Self { file, name, schema })
    }

    pub fn schema(&self) -> &Schema {
        &self.schema
    }
}

impl Slabs for ClassicSlabs {
    fn read(&mut self, variable: &str, start: &[usize], count: &[usize], out: &mut [u8]) -> Result<()> {
        let missing = || Error::run(format!("{}: there is no number variable '{variable}'", self.name));
        let raw = self.schema.variable(variable).ok_or_else(missing)?;
        let (number, place) = raw.number.zip(raw.place).ok_or_else(missing)?;
        let shape = self.schema.shape(raw);
        check(raw, &shape, start, count, out.len(), number)
            .map_err(|error| error.context(self.name.clone()))?;
        // The innermost dimensions that are wanted whole form one run of bytes with the first that is not.
        let is_record = place.record_stride.is_some();
        let outermost = usize::from(is_record);
        let mut split = shape.len();
        while split > outermost && start[split - 1] == 0 && count[split - 1] == shape[split - 1] {
            split -= 1;
        }
        let run_from = split.saturating_sub(1).max(outermost).min(shape.len());
        let width = number.size() as u64;
        let strides = strides(&shape, place.record_stride, width);
        let run: usize = count[run_from..].iter().product::<usize>() * number.size();
        if run == 0 {
            return Ok(());
        }
        let fixed: u64 = start[run_from..].iter().zip(&strides[run_from..]).map(|(s, d)| *s as u64 * d).sum();
        let mut index = vec![0_usize; run_from];
        for piece in out.chunks_exact_mut(run) {
            let outer: u64 = (0..run_from).map(|d| (start[d] + index[d]) as u64 * strides[d]).sum();
            self.file
                .read_exact_at(piece, place.begin + outer + fixed)
                .context(|| format!("{}: cannot read variable '{variable}'", self.name))?;
            for d in (0..run_from).rev() {
                index[d] += 1;
                if index[d] < count[d] {
                    break;
                }
                index[d] = 0;
            }
        }
        if cfg!(target_endian = "little") && number.size() > 1 {
            out.chunks_exact_mut(number.size()).for_each(<[u8]>::reverse);
        }
        Ok(())
    }
}

/// Bytes from one index to the next along each dimension.
fn strides(shape: &[usize], record_stride: Option<u64>, width: u64) -> Vec<u64> {
    let mut strides = vec![width; shape.len()];
    for d in (0..shape.len().saturating_sub(1)).rev() {
        strides[d] = strides[d + 1].saturating_mul(shape[d + 1] as u64);
    }
    if let (Some(stride), Some(first)) = (record_stride, strides.first_mut()) {
        *first = stride;
    }
    strides
}

fn check(
    raw: &RawVariable,
    shape: &[usize],
    start: &[usize],
    count: &[usize],
    bytes: usize,
    number: Number,
) -> Result<()> {
    let inside = start.len() == shape.len()
        && count.len() == shape.len()
        && (0..shape.len()).all(|d| start[d].checked_add(count[d]).is_some_and(|end| end <= shape[d]));
    let wanted = count.iter().try_fold(number.size(), |product, c| product.checked_mul(*c));
    if !inside || wanted != Some(bytes) {
        return Err(Error::run(format!(
            "variable '{}' has the shape {shape:?}; {count:?} from {start:?} into {bytes} bytes was asked for",
            raw.name
        )));
    }
    Ok(())
}

/// A NetCDF-4 file through the NetCDF library, which knows one caller at a time.
pub struct LibrarySlabs {
    file: netcdf::File,
    name: String,
}

impl LibrarySlabs {
    pub fn new(file: netcdf::File, name: String) -> Self {
        Self { file, name }
    }

    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let file = library::open(path).map_err(|error| {
            Error::input(format!("{name}: the NetCDF library refuses it"))
                .caused_by(error)
                .hint("the file may be truncated or damaged: copy or download it again")
        })?;
        Ok(Self::new(file, name))
    }

    pub fn file(&self) -> &netcdf::File {
        &self.file
    }
}

impl Slabs for LibrarySlabs {
    fn read(&mut self, variable: &str, start: &[usize], count: &[usize], out: &mut [u8]) -> Result<()> {
        library::quiet();
        let Some(found) = self.file.variable(variable) else {
            return Err(Error::run(format!("{}: there is no variable '{variable}'", self.name)));
        };
        let width = found.vartype().size();
        if count.iter().try_fold(width, |product, c| product.checked_mul(*c)) != Some(out.len()) {
            return Err(Error::run(format!(
                "{}: variable '{variable}' has numbers of {width} bytes; {count:?} of them do not fit {} bytes",
                self.name,
                out.len()
            )));
        }
        let extents: Vec<netcdf::Extent> = start
            .iter()
            .zip(count)
            .map(|(s, c)| netcdf::Extent::SliceCount { start: *s, count: *c, stride: 1 })
            .collect();
        found.get_raw_values_into(out, netcdf::Extents::from(extents)).map_err(|error| {
            let text = error.to_string();
            let hint = if text.contains("ilter") {
                "the file is compressed with a filter that this NetCDF library lacks: rewrite it with `nccopy -d 1`"
            } else {
                "the file may be damaged: copy or download it again"
            };
            Error::input(format!("{}: cannot read variable '{variable}' at {start:?}", self.name))
                .caused_by(error)
                .hint(hint)
        })
    }
}
