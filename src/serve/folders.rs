//! Where everything lies.
//!
//! ```text
//! OUT/MODEL/20081019T1200.nc    a published forecast
//!          /20081019T1200.zarr/  the same as a store, where that is wanted
//!          /20081019T1200.zarr.sha256    its files with their checksums
//!          /latest.nc, /latest.zarr      point to the newest
//!          /manifest.json       all of them, with checksums
//!          /.staging/           being made
//! STATE/ledger.sqlite           what came, what was made
//!      /incoming/               being decoded
//!      /analyses/MODEL/         decoded fields
//!      /memories/MODEL/         recurrent states
//! ```

use std::path::{Path, PathBuf};

use crate::error::{Context, Result};
use crate::time::InitTime;

#[derive(Debug, Clone)]
pub struct Folders {
    pub out: PathBuf,
    pub state: PathBuf,
}

impl Folders {
    /// Makes those that are not there.
    pub fn make(&self, models: &[String]) -> Result<()> {
        let of = |model: &String| [self.staging(model), self.analyses(model), self.memories(model)];
        for folder in models.iter().flat_map(of).chain([self.incoming()]) {
            std::fs::create_dir_all(&folder)
                .context(|| format!("cannot make the folder {}", folder.display()))?;
        }
        Ok(())
    }

    pub fn published(&self, model: &str) -> PathBuf {
        self.out.join(model)
    }

    pub fn staging(&self, model: &str) -> PathBuf {
        self.published(model).join(".staging")
    }

    pub fn incoming(&self) -> PathBuf {
        self.state.join("incoming")
    }

    pub fn analyses(&self, model: &str) -> PathBuf {
        self.state.join("analyses").join(model)
    }

    pub fn memories(&self, model: &str) -> PathBuf {
        self.state.join("memories").join(model)
    }

    /// The name of a cycle's forecast, below the folder of all forecasts.
    pub fn forecast(model: &str, init: InitTime) -> String {
        format!("{model}/{}.nc", init.0.file_stamp())
    }

    /// The same while it is being made.
    pub fn staged(model: &str, init: InitTime) -> String {
        format!("{model}/.staging/{}.nc", init.0.file_stamp())
    }

    /// The name of the store that belongs to a forecast.
    pub fn store(forecast: &str) -> String {
        format!("{}.zarr", forecast.strip_suffix(".nc").unwrap_or(forecast))
    }

    /// Removes what is in a folder and `is_needed` does not know: what a killed process left behind.
    pub fn sweep(folder: &Path, is_needed: impl Fn(&str) -> bool) -> Result<()> {
        let cannot = || format!("cannot clean the folder {}", folder.display());
        for entry in std::fs::read_dir(folder).context(cannot)? {
            let entry = entry.context(cannot)?;
            if is_needed(&entry.file_name().to_string_lossy()) {
                continue;
            }
            let path = entry.path();
            let is_folder = entry.file_type().context(cannot)?.is_dir();
            if is_folder { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) }
                .context(|| format!("cannot remove {}", path.display()))?;
        }
        Ok(())
    }
}
