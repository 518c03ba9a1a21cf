//! Cycles: a model and an initial time each.

use std::collections::BTreeSet;
use std::fmt;

use rusqlite::{OptionalExtension, Row, params};
use serde::Serialize;

use super::{Ledger, SERVED_SINCE, now};
use crate::error::{Error, Result};
use crate::serve::schedule::init;
use crate::time::InitTime;

/// How far a cycle has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CycleState {
    /// For its analysis, for its turn, or for the next attempt.
    Waiting,
    Running,
    /// Its file is on the way to its final name.
    Publishing,
    Published,
    /// Given up after the last attempt.
    Failed,
    /// There was nothing to start from.
    Missing,
}

impl CycleState {
    pub const ALL: [Self; 6] =
        [Self::Waiting, Self::Running, Self::Publishing, Self::Published, Self::Failed, Self::Missing];

    pub fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Publishing => "publishing",
            Self::Published => "published",
            Self::Failed => "failed",
            Self::Missing => "missing",
        }
    }
}

impl fmt::Display for CycleState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// A cycle as the ledger has it. Times are in milliseconds since 1970, of the world's clock.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cycle {
    pub model: String,
    #[serde(serialize_with = "as_text")]
    pub init: InitTime,
    pub state: CycleState,
    pub attempts: u32,
    /// Not before.
    pub due: i64,
    /// Why it failed, the last time that it did.
    pub reason: Option<String>,
    pub created: i64,
    pub started: Option<i64>,
    /// When the last file that it needed was whole; of one made again, when it was asked for.
    pub input: Option<i64>,
    /// When its first lead was there.
    pub first_lead: Option<i64>,
    pub published: Option<i64>,
    /// That the last attempt took.
    pub seconds: Option<f64>,
    pub provider: Option<String>,
    /// What it started from, in words.
    pub start: Option<String>,
    /// Whether it began after the cut-off.
    pub late: bool,
    pub remarks: Option<String>,
    /// Below the folder of all forecasts.
    pub file: Option<String>,
    pub digest: Option<String>,
    pub size: Option<u64>,
    /// [ns since 1970]
    pub modified: Option<i64>,
    /// The same forecast as a Zarr store, beside the file.
    pub store: Option<Store>,
    /// The recurrent state that it started from, in the folder of states.
    pub memory: Option<String>,
    /// The number of the last file that it may start from.
    pub knows: Option<i64>,
}

/// A folder of files that are published together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Store {
    /// Of the list of its files with theirs.
    pub digest: String,
    /// Of all of them.
    pub size: u64,
    /// The newest of them [ns since 1970].
    pub modified: i64,
}

/// A forecast that is whole and not yet published.
#[derive(Debug, Clone, PartialEq)]
pub struct Staged {
    /// Its file, below the folder of all forecasts.
    pub path: String,
    pub digest: String,
    pub memory: Option<String>,
    /// The digest of the store beside it.
    pub zarr: Option<String>,
}

/// What is known once a forecast is made.
#[derive(Debug, Clone, PartialEq)]
pub struct Made {
    pub input: Option<i64>,
    pub first_lead: i64,
    pub seconds: f64,
    pub provider: String,
    pub start: String,
    pub late: bool,
    pub remarks: Vec<String>,
    /// Of the normalised values of its analysis, as text; none without one.
    pub distribution: Option<String>,
}

const COLUMNS: &str =
    "model, init, state, attempts, due, reason, created, started, input, first_lead, published,
    seconds, provider, start, late, remarks, file, digest, size, modified, memory, knows,
    zarr, zarr_size, zarr_modified";

impl Ledger {
    /// Makes a cycle that waits, unless it is there; whether it was made. `knows`: it starts from nothing that came after
    /// the file of this number, whenever it starts.
    pub fn plan(&mut self, model: &str, init: InitTime, knows: Option<i64>) -> Result<bool> {
        let made = self.connection.execute(
            "INSERT OR IGNORE INTO cycle (model, init, state, created, knows) VALUES (?1, ?2, 'waiting', ?3, ?4)",
            params![model, init.0.seconds, now(), knows],
        );
        Ok(made.map_err(Self::wrong)? > 0)
    }

    /// After the clock was set back to `clock`: cycles of a timetable that have not fallen due are planned when they do, and
    /// those given up before `patience` was over wait again. How many these are.
    pub fn set_back(&mut self, model: &str, clock: i64, patience: i64) -> Result<usize> {
        let again = |connection: &mut rusqlite::Connection| {
            let transaction = connection.transaction()?;
            let early = transaction.execute(
                "DELETE FROM cycle WHERE model = ?1 AND init > ?2 AND state IN ('waiting', 'missing') AND attempts = 0",
                params![model, clock],
            )?;
            let waiting = transaction.execute(
                "UPDATE cycle SET state = 'waiting', reason = NULL WHERE model = ?1 AND state = 'missing' AND init + ?3 > ?2",
                params![model, clock, patience],
            )?;
            transaction.commit()?;
            Ok(early + waiting)
        };
        again(&mut self.connection).map_err(Self::wrong)
    }

    pub fn cycle(&self, model: &str, init: InitTime) -> Result<Option<Cycle>> {
        let sql = format!("SELECT {COLUMNS} FROM cycle WHERE model = ?1 AND init = ?2");
        self.connection
            .prepare_cached(&sql)
            .and_then(|mut query| query.query_row(params![model, init.0.seconds], cycle).optional())
            .map_err(Self::wrong)
    }

    /// Cycles in some states, in the order in which they were planned.
    pub fn cycles_in(&self, states: &[CycleState]) -> Result<Vec<Cycle>> {
        let words: Vec<String> = states.iter().map(|state| format!("'{state}'")).collect();
        self.select(&format!("WHERE state IN ({}) ORDER BY rowid", words.join(", ")), 0)
    }

    /// The newest cycles, of one model or of all, newest first.
    pub fn newest(&self, model: Option<&str>, most: usize) -> Result<Vec<Cycle>> {
        let quoted = model.map(|name| name.replace('\'', "''"));
        let of = quoted.map(|name| format!("WHERE model = '{name}'")).unwrap_or_default();
        self.select(&format!("{of} ORDER BY init DESC, model LIMIT {most}"), most)
    }

    /// The published cycles of a model whose forecast is there, oldest first.
    pub fn published(&self, model: &str) -> Result<Vec<Cycle>> {
        let name = model.replace('\'', "''");
        let those = "state = 'published' AND file IS NOT NULL";
        self.select(&format!("WHERE model = '{name}' AND {those} ORDER BY init"), 0)
    }

    /// How many cycles of a model have ever been published.
    pub fn count_published(&self, model: &str) -> Result<usize> {
        let sql = "SELECT count(*) FROM cycle WHERE model = ?1 AND state = 'published'";
        let count: i64 = self.connection.query_row(sql, [model], |row| row.get(0)).map_err(Self::wrong)?;
        Ok(count as usize)
    }

    /// The initial times of a model's cycles from one on [s since 1970].
    pub fn planned(&self, model: &str, first: i64) -> Result<BTreeSet<i64>> {
        let read = || {
            let mut query =
                self.connection.prepare_cached("SELECT init FROM cycle WHERE model = ?1 AND init >= ?2")?;
            let rows = query.query_map(params![model, first], |row| row.get(0))?;
            rows.collect::<rusqlite::Result<_>>()
        };
        read().map_err(Self::wrong)
    }

    fn select(&self, rest: &str, most: usize) -> Result<Vec<Cycle>> {
        let read = || {
            let mut query = self.connection.prepare(&format!("SELECT {COLUMNS} FROM cycle {rest}"))?;
            let mut found = Vec::with_capacity(most);
            for row in query.query_map([], cycle)? {
                found.push(row?);
            }
            Ok(found)
        };
        read().map_err(Self::wrong)
    }

    /// The oldest cycle of a model of which something may still come.
    pub fn oldest_pending(&self, model: &str) -> Result<Option<InitTime>> {
        let read =
            "SELECT min(init) FROM cycle WHERE model = ?1 AND state IN ('waiting', 'running', 'publishing')";
        let oldest: Option<i64> =
            self.connection.query_row(read, [model], |row| row.get(0)).map_err(Self::wrong)?;
        Ok(oldest.map(init))
    }

    /// The newest cycle of a model, whatever its state.
    pub fn last_planned(&self, model: &str) -> Result<Option<InitTime>> {
        let read = "SELECT max(init) FROM cycle WHERE model = ?1";
        let newest: Option<i64> =
            self.connection.query_row(read, [model], |row| row.get(0)).map_err(Self::wrong)?;
        Ok(newest.map(init))
    }

    /// The newest published cycle of a model before an initial time whose recurrent state is kept, and that state's file.
    pub fn predecessor(&self, model: &str, before: InitTime) -> Result<Option<(InitTime, String)>> {
        let read = "SELECT init, memory FROM cycle WHERE model = ?1 AND init < ?2 AND state = 'published'
                    AND memory IS NOT NULL ORDER BY init DESC LIMIT 1";
        self.connection
            .query_row(read, params![model, before.0.seconds], |row| Ok((init(row.get(0)?), row.get(1)?)))
            .optional()
            .map_err(Self::wrong)
    }

    /// The newest cycle of a model before an initial time that is published or may still be.
    pub fn planned_before(&self, model: &str, before: InitTime) -> Result<Option<InitTime>> {
        let read = "SELECT max(init) FROM cycle WHERE model = ?1 AND init < ?2
                    AND state IN ('waiting', 'running', 'publishing', 'published')";
        let values = params![model, before.0.seconds];
        let newest: Option<i64> =
            self.connection.query_row(read, values, |row| row.get(0)).map_err(Self::wrong)?;
        Ok(newest.map(init))
    }

    /// A waiting cycle is being made.
    pub fn begin(&mut self, model: &str, init: InitTime) -> Result<()> {
        let sql = "UPDATE cycle SET state = 'running', attempts = attempts + 1, started = ?3, reason = NULL
                   WHERE model = ?1 AND init = ?2 AND state = 'waiting'";
        self.change(sql, params![model, init.0.seconds, now()], model, init)
    }

    /// A running cycle is whole, and its file about to get its name.
    pub fn intend(&mut self, model: &str, init: InitTime, staged: &Staged, made: &Made) -> Result<()> {
        let sql = "UPDATE cycle SET state = 'publishing', staged = ?3, staged_digest = ?4, staged_memory = ?5,
                   input = coalesce(max(input, ?6), ?6, input), first_lead = ?7, seconds = ?8, provider = ?9, start = ?10, late = ?11, remarks = ?12, distribution = ?13,
                   staged_zarr = ?14
                   WHERE model = ?1 AND init = ?2 AND state = 'running'";
        let remarks = (!made.remarks.is_empty()).then(|| made.remarks.join("; "));
        let values = params![
            model,
            init.0.seconds,
            staged.path,
            staged.digest,
            staged.memory,
            made.input,
            made.first_lead,
            made.seconds,
            made.provider,
            made.start,
            made.late,
            remarks,
            made.distribution,
            staged.zarr
        ];
        self.change(sql, values, model, init)
    }

    /// What a cycle that is being published has under way.
    pub fn intended(&self, model: &str, init: InitTime) -> Result<Option<Staged>> {
        let read = "SELECT staged, staged_digest, staged_memory, staged_zarr FROM cycle
                    WHERE model = ?1 AND init = ?2 AND state = 'publishing'";
        self.connection
            .query_row(read, params![model, init.0.seconds], |row| {
                let (path, digest) = (row.get(0)?, row.get(1)?);
                Ok(Staged { path, digest, memory: row.get(2)?, zarr: row.get(3)? })
            })
            .optional()
            .map_err(Self::wrong)
    }

    /// The file has its name: the cycle is published, together with the state that it started from.
    pub fn publish(
        &mut self,
        model: &str,
        init: InitTime,
        file: &str,
        size: u64,
        modified: i64,
        store: Option<&Store>,
    ) -> Result<()> {
        let sql = "UPDATE cycle SET state = 'published', published = ?3, file = ?4, size = ?5, modified = ?6,
                   digest = staged_digest, memory = staged_memory, zarr = ?7, zarr_size = ?8, zarr_modified = ?9,
                   staged = NULL, staged_digest = NULL, staged_memory = NULL, staged_zarr = NULL, reason = NULL
                   WHERE model = ?1 AND init = ?2 AND state = 'publishing'";
        let values = params![
            model,
            init.0.seconds,
            now(),
            file,
            size as i64,
            modified,
            store.map(|store| &store.digest),
            store.map(|store| store.size as i64),
            store.map(|store| store.modified)
        ];
        self.change(sql, values, model, init)
    }

    /// A cycle waits, until `due` at least [ms since 1970], because of `reason`.
    pub fn postpone(&mut self, model: &str, init: InitTime, due: i64, reason: &str) -> Result<()> {
        let sql =
            "UPDATE cycle SET state = 'waiting', due = ?3, reason = ?4, staged = NULL, staged_digest = NULL,
                   staged_memory = NULL, staged_zarr = NULL WHERE model = ?1 AND init = ?2";
        self.change(sql, params![model, init.0.seconds, due, reason], model, init)
    }

    /// An attempt that was no fault of the cycle does not count.
    pub fn forgive(&mut self, model: &str, init: InitTime) -> Result<()> {
        let sql = "UPDATE cycle SET attempts = max(attempts - 1, 0) WHERE model = ?1 AND init = ?2";
        self.change(sql, params![model, init.0.seconds], model, init)
    }

    /// Nothing will be made of a cycle.
    pub fn give_up(&mut self, model: &str, init: InitTime, state: CycleState, reason: &str) -> Result<()> {
        let sql = "UPDATE cycle SET state = ?3, reason = ?4, staged = NULL, staged_digest = NULL,
                   staged_memory = NULL, staged_zarr = NULL WHERE model = ?1 AND init = ?2";
        self.change(sql, params![model, init.0.seconds, state.word(), reason], model, init)
    }

    /// Somebody wants a cycle to be made again: it has all that it needs from now on.
    pub fn rerun(&mut self, model: &str, init: InitTime) -> Result<()> {
        let found = self.cycle(model, init)?.ok_or_else(|| {
            Error::input(format!("there is no cycle {init} of {model}"))
                .hint("see which there are with: wxsim cycles")
        })?;
        match found.state {
            CycleState::Published | CycleState::Failed | CycleState::Missing => {
                let sql =
                    "UPDATE cycle SET state = 'waiting', attempts = 0, due = 0, reason = 'asked for again',
                           input = ?3 WHERE model = ?1 AND init = ?2";
                self.change(sql, params![model, init.0.seconds, now()], model, init)
            }
            state => Err(Error::input(format!("the cycle {init} of {model} is {state}"))
                .hint("a cycle can be made again once it is published, failed or missing")),
        }
    }

    /// The forecast of a cycle is no longer there.
    pub fn forget_file(&mut self, model: &str, init: InitTime) -> Result<()> {
        let sql = "UPDATE cycle SET file = NULL, digest = NULL, size = NULL, modified = NULL,
                   zarr = NULL, zarr_size = NULL, zarr_modified = NULL
                   WHERE model = ?1 AND init = ?2";
        self.change(sql, params![model, init.0.seconds], model, init)
    }

    /// Forgets the recurrent states of a model before an initial time; gives their files.
    pub fn forget_memories(&mut self, model: &str, before: i64) -> Result<Vec<String>> {
        let forget = |connection: &mut rusqlite::Connection| {
            let transaction = connection.transaction()?;
            let files = {
                let read = "SELECT memory FROM cycle WHERE model = ?1 AND init < ?2 AND memory IS NOT NULL";
                let mut query = transaction.prepare(read)?;
                let rows = query.query_map(params![model, before], |row| row.get(0))?;
                rows.collect::<rusqlite::Result<Vec<String>>>()?
            };
            let sql = "UPDATE cycle SET memory = NULL WHERE model = ?1 AND init < ?2";
            transaction.execute(sql, params![model, before])?;
            transaction.commit()?;
            Ok(files)
        };
        forget(&mut self.connection).map_err(Self::wrong)
    }

    /// The distributions of the newest analyses that a model has forecast from, newest first; after a canary was promoted,
    /// only those that this one has seen, since another network sees other numbers.
    pub fn distributions(&self, model: &str, most: usize) -> Result<Vec<String>> {
        let read = || {
            let mut query = self.connection.prepare_cached(&format!(
                "SELECT distribution FROM cycle WHERE model = ?1 AND state = 'published' AND distribution IS NOT NULL
                 AND published >= {SERVED_SINCE} ORDER BY init DESC LIMIT ?2",
            ))?;
            let rows = query.query_map(params![model, most as i64], |row| row.get(0))?;
            rows.collect::<rusqlite::Result<_>>()
        };
        read().map_err(Self::wrong)
    }

    /// Every file of recurrent states that something refers to.
    pub fn memories(&self) -> Result<BTreeSet<String>> {
        let read = || {
            let mut query = self.connection.prepare_cached(
                "SELECT memory FROM cycle WHERE memory IS NOT NULL
                 UNION SELECT staged_memory FROM cycle WHERE staged_memory IS NOT NULL",
            )?;
            let rows = query.query_map([], |row| row.get(0))?;
            rows.collect::<rusqlite::Result<_>>()
        };
        read().map_err(Self::wrong)
    }

    fn change(
        &mut self,
        sql: &str,
        values: impl rusqlite::Params,
        model: &str,
        init: InitTime,
    ) -> Result<()> {
        match self.connection.execute(sql, values).map_err(Self::wrong)? {
            1 => Ok(()),
            _ => Err(Error::run(format!(
                "the cycle {init} of {model} is not in the state that it should be in"
            ))),
        }
    }
}

fn as_text<S: serde::Serializer>(init: &InitTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(init)
}

fn cycle(row: &Row<'_>) -> rusqlite::Result<Cycle> {
    let word: String = row.get(2)?;
    let state = CycleState::ALL.into_iter().find(|state| state.word() == word);
    Ok(Cycle {
        model: row.get(0)?,
        init: init(row.get(1)?),
        state: state.ok_or_else(|| rusqlite::Error::InvalidColumnName(word))?,
        attempts: row.get(3)?,
        due: row.get(4)?,
        reason: row.get(5)?,
        created: row.get(6)?,
        started: row.get(7)?,
        input: row.get(8)?,
        first_lead: row.get(9)?,
        published: row.get(10)?,
        seconds: row.get(11)?,
        provider: row.get(12)?,
        start: row.get(13)?,
        late: row.get(14)?,
        remarks: row.get(15)?,
        file: row.get(16)?,
        digest: row.get(17)?,
        size: row.get::<_, Option<i64>>(18)?.map(|size| size as u64),
        modified: row.get(19)?,
        memory: row.get(20)?,
        knows: row.get(21)?,
        store: match (row.get(22)?, row.get::<_, Option<i64>>(23)?, row.get(24)?) {
            (Some(digest), Some(size), Some(modified)) => Some(Store { digest, size: size as u64, modified }),
            _ => None,
        },
    })
}
