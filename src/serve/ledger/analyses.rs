//! Files that came, and the fields that they brought.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, params};

use super::Ledger;
use crate::error::Result;

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Accepted,
    Rejected,
    /// All that it holds had come before.
    Duplicate,
}

impl Verdict {
    pub fn word(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
            Self::Duplicate => "duplicate",
        }
    }

    fn of(word: &str) -> Self {
        match word {
            "accepted" => Self::Accepted,
            "duplicate" => Self::Duplicate,
            _ => Self::Rejected,
        }
    }
}

/// A file of the inbox that has been dealt with.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenFile {
    pub path: String,
    pub size: u64,
    /// [ns since 1970]
    pub modified: i64,
    pub verdict: Verdict,
    pub reason: Option<String>,
    /// [ms since 1970]
    pub settled: i64,
}

/// A field of an analysis.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    pub quantity: String,
    /// The file, in the folder of decoded analyses, that holds it.
    pub stored: String,
    /// Of its values.
    pub digest: String,
    /// Where it came from.
    pub source: String,
    /// When that was whole [ms since 1970].
    pub complete: i64,
    /// Of the file that brought it, counted as they were accepted.
    pub number: i64,
}

impl Ledger {
    /// Whether this file, of this size and time, has been dealt with.
    pub fn has_seen(&self, path: &str, size: u64, modified: i64) -> Result<bool> {
        self.connection
            .prepare_cached("SELECT 1 FROM file WHERE path = ?1 AND size = ?2 AND modified = ?3")
            .and_then(|mut found| found.exists(params![path, size as i64, modified]))
            .map_err(Self::wrong)
    }

    /// Settles a file together with the fields that it brought, by model and valid time.
    pub fn settle(&mut self, file: &SeenFile, brought: &[(String, i64, Field)]) -> Result<()> {
        let settle = |connection: &mut rusqlite::Connection| {
            let transaction = connection.transaction()?;
            transaction.execute(
                "INSERT OR REPLACE INTO file VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                params![
                    file.path,
                    file.size as i64,
                    file.modified,
                    file.verdict.word(),
                    file.reason,
                    file.settled
                ],
            )?;
            for (model, valid, field) in brought {
                let Field { quantity, stored, digest, source, complete, number } = field;
                transaction.execute(
                    "INSERT OR REPLACE INTO field VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                    params![model, valid, quantity, stored, digest, source, complete, number],
                )?;
            }
            transaction.commit()
        };
        settle(&mut self.connection).map_err(Self::wrong)
    }

    /// The newest files, newest first.
    pub fn files(&self, most: usize) -> Result<Vec<SeenFile>> {
        let read = || {
            let mut query = self.connection.prepare_cached(
                "SELECT path, size, modified, verdict, reason, settled FROM file ORDER BY settled DESC, path LIMIT ?1",
            )?;
            let rows = query.query_map([most as i64], |row| {
                Ok(SeenFile {
                    path: row.get(0)?,
                    size: row.get::<_, i64>(1)? as u64,
                    modified: row.get(2)?,
                    verdict: Verdict::of(&row.get::<_, String>(3)?),
                    reason: row.get(4)?,
                    settled: row.get(5)?,
                })
            })?;
            rows.collect::<rusqlite::Result<_>>()
        };
        read().map_err(Self::wrong)
    }

    /// A field of a model's analyses.
    pub fn field(&self, model: &str, valid: i64, quantity: &str) -> Result<Option<Field>> {
        self.connection
            .prepare_cached(
                "SELECT quantity, stored, digest, source, complete, number FROM field
                 WHERE model = ?1 AND valid = ?2 AND quantity = ?3",
            )
            .and_then(|mut query| query.query_row(params![model, valid, quantity], field).optional())
            .map_err(Self::wrong)
    }

    /// All fields of a model's analyses from one valid time to another, both included.
    pub fn fields(&self, model: &str, first: i64, last: i64) -> Result<BTreeMap<i64, Vec<Field>>> {
        let read = || {
            let mut query = self.connection.prepare_cached(
                "SELECT quantity, stored, digest, source, complete, number, valid FROM field
                 WHERE model = ?1 AND valid BETWEEN ?2 AND ?3 ORDER BY valid, quantity",
            )?;
            let rows = query
                .query_map(params![model, first, last], |row| Ok((row.get::<_, i64>(6)?, field(row)?)))?;
            let mut found: BTreeMap<i64, Vec<Field>> = BTreeMap::new();
            for row in rows {
                let (valid, field) = row?;
                found.entry(valid).or_default().push(field);
            }
            Ok(found)
        };
        read().map_err(Self::wrong)
    }

    /// The valid times of a model's analyses that have at least so many fields, each with the number of the file that
    /// completed it.
    pub fn whole(&self, model: &str, fields: usize) -> Result<BTreeMap<i64, i64>> {
        let read = || {
            let mut query = self.connection.prepare_cached(
                "SELECT valid, max(number) FROM field WHERE model = ?1 GROUP BY valid HAVING count(*) >= ?2",
            )?;
            let rows =
                query.query_map(params![model, fields as i64], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<rusqlite::Result<_>>()
        };
        read().map_err(Self::wrong)
    }

    /// The number of the last file that was accepted, which outlives its fields where a cycle knows it.
    pub fn last_number(&self) -> Result<i64> {
        let read = "SELECT max(coalesce((SELECT max(number) FROM field), 0), coalesce((SELECT max(knows) FROM cycle), 0))";
        self.connection.query_row(read, [], |row| row.get(0)).map_err(Self::wrong)
    }

    /// Forgets a model's analyses before a time; gives the files that nothing refers to any longer.
    pub fn forget_fields(&mut self, model: &str, before: i64) -> Result<Vec<String>> {
        let forget = |connection: &mut rusqlite::Connection| {
            let transaction = connection.transaction()?;
            let files = {
                let mut query = transaction.prepare(
                    "SELECT DISTINCT stored FROM field WHERE model = ?1 AND valid < ?2
                     AND stored NOT IN (SELECT stored FROM field WHERE model != ?1 OR valid >= ?2)",
                )?;
                let rows = query.query_map(params![model, before], |row| row.get(0))?;
                rows.collect::<rusqlite::Result<Vec<String>>>()?
            };
            transaction
                .execute("DELETE FROM field WHERE model = ?1 AND valid < ?2", params![model, before])?;
            transaction.commit()?;
            Ok(files)
        };
        forget(&mut self.connection).map_err(Self::wrong)
    }

    /// Every file of decoded analyses that something refers to.
    pub fn stored(&self) -> Result<std::collections::BTreeSet<String>> {
        let read = || {
            let mut query = self.connection.prepare_cached("SELECT DISTINCT stored FROM field")?;
            let rows = query.query_map([], |row| row.get(0))?;
            rows.collect::<rusqlite::Result<_>>()
        };
        read().map_err(Self::wrong)
    }
}

fn field(row: &rusqlite::Row<'_>) -> rusqlite::Result<Field> {
    Ok(Field {
        quantity: row.get(0)?,
        stored: row.get(1)?,
        digest: row.get(2)?,
        source: row.get(3)?,
        complete: row.get(4)?,
        number: row.get(5)?,
    })
}
