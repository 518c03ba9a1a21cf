//! Reads fields: any file in, canonical orientation and SI units out.

use super::info::{FileInfo, VariableInfo};
use crate::error::{Error, Result};

/// An open file.
pub struct Reader {
    info: FileInfo,
}

impl Reader {
    /// Opens a file that [`inspect_file`](super::inspect_file) understood, and refuses it when it has changed since.
    pub fn open(info: &FileInfo) -> Result<Self> {
        Ok(Self { info: info.clone() })
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
        let _ = (variable, time, level, out);
        Err(Error::run(format!("{}: reading is not built yet", self.info.path.display())))
    }
}
