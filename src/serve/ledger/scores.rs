//! What past forecasts turned out to be worth, and what became of canaries.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::{OptionalExtension, params};

use super::{Ledger, SERVED_SINCE, now};
use crate::error::Result;
use crate::serve::schedule::init;
use crate::serve::skill::Score;

impl Ledger {
    pub fn add_scores(&mut self, scores: &[Score]) -> Result<()> {
        let add = |connection: &mut rusqlite::Connection| {
            let transaction = connection.transaction()?;
            for Score { model, init, lead, quantity, square } in scores {
                transaction.execute(
                    "INSERT OR REPLACE INTO score VALUES (?1, ?2, ?3, ?4, ?5)",
                    params![model, init.0.seconds, *lead as i64, quantity, square],
                )?;
            }
            transaction.commit()
        };
        add(&mut self.connection).map_err(Self::wrong)
    }

    /// Initial times [s since 1970], from one on, and leads of a model that have a score.
    pub fn scored(&self, model: &str, first: i64) -> Result<BTreeSet<(i64, usize)>> {
        let read = || {
            let sql = "SELECT DISTINCT init, lead FROM score WHERE model = ?1 AND init >= ?2";
            let mut query = self.connection.prepare_cached(sql)?;
            let rows = query
                .query_map(params![model, first], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as usize)))?;
            rows.collect::<rusqlite::Result<_>>()
        };
        read().map_err(Self::wrong)
    }

    /// The scores of the newest initial times of a model that have any; after a canary was promoted, only those of its own
    /// forecasts.
    pub fn scores(&self, model: &str, inits: usize) -> Result<Vec<Score>> {
        let read = || {
            let mut query = self.connection.prepare_cached(&format!(
                "SELECT init, lead, quantity, square FROM score WHERE model = ?1 AND init IN
                 (SELECT init FROM cycle WHERE model = ?1 AND published >= {SERVED_SINCE}
                  AND EXISTS (SELECT 1 FROM score WHERE score.model = cycle.model AND score.init = cycle.init)
                  ORDER BY init DESC LIMIT ?2)
                 ORDER BY init, lead, quantity",
            ))?;
            let rows = query.query_map(params![model, inits as i64], |row| {
                Ok(Score {
                    model: model.to_owned(),
                    init: init(row.get(0)?),
                    lead: row.get::<_, i64>(1)? as usize,
                    quantity: row.get(2)?,
                    square: row.get(3)?,
                })
            })?;
            rows.collect::<rusqlite::Result<_>>()
        };
        read().map_err(Self::wrong)
    }

    /// A forecast is made again: what it was worth before no longer counts.
    pub fn forget_scores(&mut self, model: &str, of: crate::time::InitTime) -> Result<()> {
        let sql = "DELETE FROM score WHERE model = ?1 AND init = ?2";
        self.connection.execute(sql, params![model, of.0.seconds]).map(drop).map_err(Self::wrong)
    }

    /// A canary of a model, whose configuration names the run `configured`, is promoted or rejected.
    pub fn judge(
        &mut self,
        model: &str,
        canary: &Path,
        configured: &Path,
        promoted: bool,
        reason: &str,
    ) -> Result<()> {
        let [canary, configured] = [canary, configured].map(|path| path.to_string_lossy().into_owned());
        let sql = "INSERT OR REPLACE INTO canary VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let values = params![model, canary, configured, promoted, reason, now()];
        self.connection.execute(sql, values).map(drop).map_err(Self::wrong)
    }

    /// What was judged of a canary: whether it was promoted, and why.
    pub fn judgement(&self, model: &str, canary: &Path) -> Result<Option<(bool, String)>> {
        let sql = "SELECT promoted, reason FROM canary WHERE model = ?1 AND run = ?2";
        let values = params![model, canary.to_string_lossy()];
        self.connection
            .query_row(sql, values, |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
            .map_err(Self::wrong)
    }

    /// The run that was last promoted in the place of the one that the configuration names.
    pub fn promoted(&self, model: &str, configured: &Path) -> Result<Option<String>> {
        let sql = "SELECT run FROM canary WHERE model = ?1 AND configured = ?2 AND promoted
                   ORDER BY since DESC LIMIT 1";
        let values = params![model, configured.to_string_lossy()];
        self.connection.query_row(sql, values, |row| row.get(0)).optional().map_err(Self::wrong)
    }
}
