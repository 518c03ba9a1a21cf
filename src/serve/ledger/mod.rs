//! What has come, what was made of it, and what is still to do: a small database that survives whatever crashes when.
//!
//! ```text
//! waiting -> running -> publishing -> published
//!    ^          |            |
//!    +----------+------------+--> failed, missing
//! ```
//!
//! A cycle is `publishing` while its file is on its way to its final name: after a crash, the digest written here tells
//! whether it got there. One process writes; others may read, and ask for a cycle to be made again.

mod analyses;
mod cycles;
mod scores;
#[cfg(test)]
mod tests;

pub use analyses::{Field, SeenFile, Verdict};
pub use cycles::{Cycle, CycleState, Made, Staged, Store};

use std::path::Path;
use std::time::{Duration, SystemTime};

use rusqlite::Connection;

use crate::error::{Error, Result};

/// The form of the tables.
const VERSION: i64 = 2;

const TABLES: &str = "
CREATE TABLE file (
    path TEXT PRIMARY KEY, size INTEGER NOT NULL, modified INTEGER NOT NULL,
    verdict TEXT NOT NULL, reason TEXT, settled INTEGER NOT NULL
);
CREATE TABLE field (
    model TEXT NOT NULL, valid INTEGER NOT NULL, quantity TEXT NOT NULL,
    stored TEXT NOT NULL, digest TEXT NOT NULL, source TEXT NOT NULL, complete INTEGER NOT NULL, number INTEGER NOT NULL,
    PRIMARY KEY (model, valid, quantity)
);
CREATE TABLE cycle (
    model TEXT NOT NULL, init INTEGER NOT NULL, state TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0, due INTEGER NOT NULL DEFAULT 0, reason TEXT,
    created INTEGER NOT NULL, started INTEGER, input INTEGER, first_lead INTEGER, published INTEGER, seconds REAL,
    provider TEXT, start TEXT, late INTEGER NOT NULL DEFAULT 0, remarks TEXT, knows INTEGER, distribution TEXT,
    file TEXT, digest TEXT, size INTEGER, modified INTEGER,
    staged TEXT, staged_digest TEXT, memory TEXT, staged_memory TEXT,
    zarr TEXT, zarr_size INTEGER, zarr_modified INTEGER, staged_zarr TEXT,
    PRIMARY KEY (model, init)
);
CREATE TABLE score (
    model TEXT NOT NULL, init INTEGER NOT NULL, lead INTEGER NOT NULL, quantity TEXT NOT NULL, square REAL NOT NULL,
    PRIMARY KEY (model, init, lead, quantity)
);
CREATE TABLE canary (
    model TEXT NOT NULL, run TEXT NOT NULL, configured TEXT NOT NULL, promoted INTEGER NOT NULL,
    reason TEXT NOT NULL, since INTEGER NOT NULL,
    PRIMARY KEY (model, run)
);
";

/// From form 1 to 2.
const WITH_STORES: &str = "
ALTER TABLE cycle ADD COLUMN zarr TEXT;
ALTER TABLE cycle ADD COLUMN zarr_size INTEGER;
ALTER TABLE cycle ADD COLUMN zarr_modified INTEGER;
ALTER TABLE cycle ADD COLUMN staged_zarr TEXT;
";

/// When the run that now makes the forecasts of model ?1 took over [ms since 1970]: nought unless it was a canary.
const SERVED_SINCE: &str = "coalesce((SELECT max(since) FROM canary WHERE model = ?1 AND promoted), 0)";

pub struct Ledger {
    connection: Connection,
}

impl Ledger {
    /// Opens the ledger of a state folder, and makes it where there is none.
    pub fn open(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder)
            .map_err(|e| Error::run(format!("cannot make the folder {}", folder.display())).caused_by(e))?;
        Self::at(&folder.join("ledger.sqlite"))
    }

    /// Opens the ledger of a state folder, if there is one.
    pub fn find(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join("ledger.sqlite");
        if path.is_file() { Self::at(&path).map(Some) } else { Ok(None) }
    }

    /// Opens the ledger of a state folder where something was served.
    pub fn existing(folder: &Path) -> Result<Self> {
        Self::find(folder)?.ok_or_else(|| {
            Error::input(format!("{} has no ledger: nothing was served yet", folder.display()))
                .hint("start the loop first: wxsim serve CONFIG")
        })
    }

    fn at(path: &Path) -> Result<Self> {
        let cannot = |error| Error::run(format!("{}: cannot be opened", path.display())).caused_by(error);
        let mut connection = Connection::open(path).map_err(cannot)?;
        connection.busy_timeout(Duration::from_secs(10)).map_err(cannot)?;
        // Readers do not wait for the writer; what is committed has reached the disk.
        connection.pragma_update(None, "journal_mode", "WAL").map_err(cannot)?;
        connection.pragma_update(None, "synchronous", "FULL").map_err(cannot)?;
        let transaction = connection.transaction().map_err(cannot)?;
        let version: i64 =
            transaction.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(cannot)?;
        match version {
            0 => {
                transaction.execute_batch(TABLES).map_err(cannot)?;
                transaction.pragma_update(None, "user_version", VERSION).map_err(cannot)?;
            }
            1 => {
                transaction.execute_batch(WITH_STORES).map_err(cannot)?;
                transaction.pragma_update(None, "user_version", VERSION).map_err(cannot)?;
            }
            VERSION => {}
            other => {
                return Err(Error::input(format!(
                    "{} has form {other}, and this wxsim writes {VERSION}",
                    path.display()
                ))
                .hint("serve with the wxsim that made it, or name another serve.state"));
            }
        }
        transaction.commit().map_err(cannot)?;
        Ok(Self { connection })
    }

    fn wrong(error: rusqlite::Error) -> Error {
        Error::run("the ledger of the service").caused_by(error).hint("see whether the disk is full (df -h)")
    }
}

/// Milliseconds since 1970, of the world's clock.
pub fn stamp(time: SystemTime) -> i64 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => since.as_millis() as i64,
        Err(before) => -(before.duration().as_millis() as i64),
    }
}

/// [`stamp`] of this moment.
pub fn now() -> i64 {
    stamp(SystemTime::now())
}
