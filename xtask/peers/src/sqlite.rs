//! SQLite, in memory, with prepared statements and one transaction for everything. It counts from scratch at every
//! check, as the paper does, or maintains counters with SQL triggers.

use bench::hand::{Checks, Horizon};
use bench::monitor::Monitor;
use bench::triggers::{Triggers, instance_hash};
use bench::workload::{Task, Workload};
use fairstream_core::{EngineError, EventBatch, Time};
use rusqlite::{Connection, params};

use crate::events::{self, Event};

/// How rows are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counting {
    /// By a query at every check.
    ByQuery,
    /// By SQL triggers, on every insert and update.
    ByTriggers,
}

pub(crate) struct Sqlite {
    database: Connection,
    task: Task,
    counting: Counting,
    checks: Checks,
    start: Time,
    /// Seminars in order of appearance, which is the order of verdicts.
    seminars: Vec<String>,
    triggers: Triggers,
}

const PEOPLE: &str = "
    CREATE TABLE applicants (id INTEGER PRIMARY KEY, seminar TEXT, gender TEXT, hired INTEGER NOT NULL DEFAULT 0);";
const PEOPLE_INDEX: &str = "CREATE INDEX by_group ON applicants (seminar, gender, hired);";
const COUNTERS: &str = "
    CREATE TABLE counters (seminar TEXT, gender TEXT, applied INTEGER, hired INTEGER,
        PRIMARY KEY (seminar, gender)) WITHOUT ROWID;
    CREATE TRIGGER applied AFTER INSERT ON applicants BEGIN
        INSERT INTO counters VALUES (NEW.seminar, NEW.gender, 1, 0)
            ON CONFLICT DO UPDATE SET applied = applied + 1;
    END;
    CREATE TRIGGER hired AFTER UPDATE OF hired ON applicants WHEN OLD.hired = 0 AND NEW.hired = 1 BEGIN
        UPDATE counters SET hired = hired + 1 WHERE seminar = NEW.seminar AND gender = NEW.gender;
    END;";
const SCREENED: &str = "
    CREATE TABLE groups (name TEXT PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, high INTEGER, deadline INTEGER,
        offended INTEGER NOT NULL DEFAULT 0, counted INTEGER NOT NULL DEFAULT 0);";
const SCREENED_INDEX: &str = "CREATE INDEX by_group ON people (name, offended, deadline, high);";
const ODDS_COUNTERS: &str = "
    CREATE INDEX open ON people (deadline) WHERE counted = 0;
    CREATE TABLE counters (name TEXT, offended INTEGER, high INTEGER NOT NULL DEFAULT 0,
        total INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (name, offended)) WITHOUT ROWID;
    CREATE TRIGGER appeared AFTER INSERT ON groups BEGIN
        INSERT INTO counters (name, offended) VALUES (NEW.name, 0), (NEW.name, 1);
    END;
    CREATE TRIGGER counted AFTER UPDATE OF counted ON people BEGIN
        UPDATE counters SET high = high + NEW.high, total = total + 1
            WHERE name = NEW.name AND offended = NEW.offended;
    END;";

/// Selects the seminars in which rates differ too much.
const ASK_PEOPLE: &str = "
    SELECT seminar FROM (
        SELECT seminar, (SUM(hired) + 0.5 * 24.0) / (COUNT(*) + 24.0) AS rate
        FROM applicants GROUP BY seminar, gender)
    GROUP BY seminar HAVING MAX(rate) - MIN(rate) > 0.1";
const ASK_COUNTERS: &str = "
    SELECT seminar FROM (
        SELECT seminar, (hired + 0.5 * 24.0) / (applied + 24.0) AS rate FROM counters)
    GROUP BY seminar HAVING MAX(rate) - MIN(rate) > 0.1";
/// Whether rates differ too much, for people who re-offended or for people who did not.
const ASK_SCREENED: &str = "
    SELECT MAX(rate) - MIN(rate) > 0.1 FROM (
        SELECT (50.0 + COALESCE(SUM(high), 0)) / (100.0 + COUNT(id)) AS rate
        FROM groups LEFT JOIN people ON people.name = groups.name AND offended = ?1 AND deadline <= ?2
        GROUP BY groups.name)";
const ASK_ODDS_COUNTERS: &str = "
    SELECT MAX(rate) - MIN(rate) > 0.1 FROM (
        SELECT (50.0 + high) / (100.0 + total) AS rate FROM counters WHERE offended = ?1 AND ?2 IS NOT NULL)";

impl Sqlite {
    pub(crate) fn new(workload: &Workload, start: Time, counting: Counting) -> anyhow::Result<Sqlite> {
        let database = Connection::open_in_memory()?;
        database.set_prepared_statement_cache_capacity(32);
        let schema = match (workload.task, counting) {
            (Task::Odds(_), Counting::ByQuery) => [SCREENED, SCREENED_INDEX],
            (Task::Odds(_), Counting::ByTriggers) => [SCREENED, ODDS_COUNTERS],
            (_, Counting::ByQuery) => [PEOPLE, PEOPLE_INDEX],
            (_, Counting::ByTriggers) => [PEOPLE, COUNTERS],
        };
        schema.iter().try_for_each(|schema| database.execute_batch(schema))?;
        database.execute_batch("BEGIN")?;
        Ok(Sqlite {
            database,
            task: workload.task,
            counting,
            checks: workload.task.checks(start),
            start,
            seminars: Vec::new(),
            triggers: Triggers::default(),
        })
    }

    fn event(&mut self, time: Time, event: &Event<'_>) -> rusqlite::Result<()> {
        while let Some(tick) = self.checks.due_before(time) {
            self.check(tick)?;
        }
        let database = &self.database;
        match event {
            Event::Applied { id, gender, seminar } => {
                if !self.seminars.iter().any(|known| known == seminar) {
                    self.seminars.push((*seminar).to_owned());
                }
                let sql = "INSERT INTO applicants (id, gender, seminar) VALUES (?, ?, ?)";
                database.prepare_cached(sql)?.execute(params![id, gender, seminar])?;
            }
            Event::Accepted(id) => {
                database.prepare_cached("UPDATE applicants SET hired = 1 WHERE id = ?")?.execute([id])?;
            }
            Event::Screened { id, group, is_high } => {
                database.prepare_cached("INSERT OR IGNORE INTO groups VALUES (?)")?.execute([group])?;
                let horizon = if let Task::Odds(horizon) = self.task { horizon } else { Horizon::Exact };
                let deadline = horizon.deadline(self.start.0, time.0);
                let sql = "INSERT OR REPLACE INTO people (id, name, high, deadline) VALUES (?, ?, ?, ?)";
                database.prepare_cached(sql)?.execute(params![id, group, is_high, deadline])?;
            }
            Event::Offended(id) => {
                let sql = "UPDATE people SET offended = 1 WHERE id = ? AND deadline >= ?";
                database.prepare_cached(sql)?.execute(params![id, time.0])?;
            }
        }
        if self.checks.at_every_event() { self.check(time) } else { Ok(()) }
    }

    fn check(&mut self, time: Time) -> rusqlite::Result<()> {
        let is_kept = self.counting == Counting::ByTriggers;
        if let Task::Odds(_) = self.task {
            if is_kept {
                let sql = "UPDATE people SET counted = 1 WHERE counted = 0 AND deadline <= ?";
                self.database.prepare_cached(sql)?.execute([time.0])?;
            }
            let mut ask =
                self.database.prepare_cached(if is_kept { ASK_ODDS_COUNTERS } else { ASK_SCREENED })?;
            for (trigger, offended) in [(0, true), (1, false)] {
                let violated: Option<bool> = ask.query_row(params![offended, time.0], |row| row.get(0))?;
                if violated == Some(true) {
                    self.triggers.fired(time, trigger, 0);
                }
            }
            return Ok(());
        }
        let mut ask = self.database.prepare_cached(if is_kept { ASK_COUNTERS } else { ASK_PEOPLE })?;
        let violated = ask.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
        for seminar in self.seminars.iter().filter(|seminar| violated.contains(seminar)) {
            let instance = match self.task {
                Task::Seminar { .. } => instance_hash(&serde_json::json!([seminar]).to_string()),
                _ => 0,
            };
            self.triggers.fired(time, 0, instance);
        }
        Ok(())
    }
}

impl Monitor for Sqlite {
    fn feed(&mut self, events: &EventBatch) -> Result<(), EngineError> {
        events::each(self.task, events, |time, event| self.event(time, &event))
            .map_err(|error| EngineError::Build(error.to_string()))
    }

    fn advance(&mut self, time: Time) -> Result<(), EngineError> {
        while let Some(tick) = self.checks.due_before(Time(time.0 + 1)) {
            self.check(tick).map_err(|error| EngineError::Build(error.to_string()))?;
        }
        Ok(())
    }

    fn triggers(&mut self) -> anyhow::Result<Triggers> {
        Ok(self.triggers)
    }
}
