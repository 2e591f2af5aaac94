//! An engine with a judge behind it: what the inner engine says of counts goes to the judge, what the judge
//! says becomes verdicts among the others.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use fairstream_core::{
    Closed, Engine, EngineError, EventBatch, Kind, Outlet, Selection, SnapshotError, Time, Value, Verdict,
    VerdictBatch, Verdicts,
};
use serde::{Deserialize, Serialize};

use crate::compile::{Route, Tells};
use crate::{Compiled, Judge};

/// Evaluates compiled fairness files: an engine for their RTLola text, and the judge of its counts.
///
/// Its verdicts are those of the inner engine, and alarms under the names of the metrics, each after the
/// counts that it comes of, at the time of their check. Knows no engine in particular.
pub struct JudgedEngine {
    inner: Box<dyn Engine>,
    /// Those of the inner engine, then one for each rate.
    streams: Vec<String>,
    /// For the inner engine, one for each selection of whoever reads.
    verdicts: Option<(Selection, Verdicts)>,
    bench: Rc<RefCell<Bench>>,
    /// The clock's place among the inner engine's columns.
    clock: Option<(usize, String)>,
    /// The streams that the judge listens to.
    heard: Vec<usize>,
    /// Those of them that say when to judge.
    bells: Vec<usize>,
}

/// Where the judge sits: between the inner engine and whoever reads.
struct Bench {
    judge: Arc<Mutex<Judge>>,
    /// For each stream of the inner engine what it tells, by its name.
    routes: HashMap<String, (usize, Vec<Route>)>,
    /// For each rule the index of its first rate's stream.
    alarms: Vec<usize>,
    /// Lent for the time of a call.
    out: Option<Verdicts>,
}

/// What is written down of both.
#[derive(Serialize, Deserialize)]
struct Snapshot {
    engine: Vec<u8>,
    judge: Vec<u8>,
}

impl JudgedEngine {
    /// Puts `judge` behind an engine for the compiled text, whose columns are `columns` in this order. The
    /// judge is shared so that somebody can ask how things stand.
    ///
    /// # Errors
    /// The engine is for another text.
    pub fn new(
        inner: Box<dyn Engine>,
        compiled: &Compiled,
        columns: &[&str],
        judge: Arc<Mutex<Judge>>,
    ) -> Result<JudgedEngine, EngineError> {
        let mut streams = inner.streams().to_vec();
        let mut routes: HashMap<String, (usize, Vec<Route>)> =
            streams.iter().enumerate().map(|(index, name)| (name.clone(), (index, Vec::new()))).collect();
        let (mut heard, mut bells) = (Vec::new(), Vec::new());
        for route in compiled.routes() {
            let Some((index, tells)) = routes.get_mut(&route.stream) else {
                let reason = format!("the engine has no stream `{}`: it is for another text", route.stream);
                return Err(EngineError::Build(reason));
            };
            heard.push(*index);
            if route.tells == Tells::Check {
                bells.push(*index);
            }
            tells.push(route.clone());
        }
        let mut alarms = Vec::new();
        for rule in compiled.rules() {
            alarms.push(streams.len());
            streams.extend(rule.rates.iter().map(|rate| rate.stream.clone()));
        }
        let clock = compiled.clock().and_then(|clock| {
            columns.iter().position(|column| *column == clock).map(|index| (index, clock.to_owned()))
        });
        let bench = Rc::new(RefCell::new(Bench { judge, routes, alarms, out: None }));
        Ok(JudgedEngine { inner, streams, verdicts: None, bench, clock, heard, bells })
    }

    /// Lets the inner engine do something, with its verdicts on their way to the judge and on to `out`.
    fn hear(
        &mut self,
        out: &mut Verdicts,
        work: impl FnOnce(&mut dyn Engine, &mut Verdicts) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let selection = out.selection();
        let (_, inner) = match self.verdicts.take() {
            Some(verdicts) if verdicts.0 == selection => self.verdicts.insert(verdicts),
            _ => self.verdicts.insert((selection, self.verdicts_for(selection))),
        };
        let _lent = Loan::new(&self.bench, out);
        let result = work(&mut *self.inner, inner);
        // Also what was said before a failure.
        let flushed = inner.flush();
        result?;
        Ok(flushed?)
    }

    /// Where the inner engine puts its verdicts: no more of them than the judge and the reader want. Counts are
    /// wanted when they are new; when to judge, always.
    fn verdicts_for(&self, selection: Selection) -> Verdicts {
        const MAX_ROWS: usize = 4096;
        let seat = Seat(Rc::clone(&self.bench));
        let verdicts = Verdicts::new(self.inner.streams(), Selection::Changes, MAX_ROWS, seat);
        match selection {
            Selection::Changes => verdicts,
            Selection::Triggers => verdicts.with_changes_of(&self.heard, &self.bells),
            Selection::Alarms => verdicts.with_changes_of(&self.heard, &self.bells).without_triggers(),
        }
    }

    /// The events with the time as a column, if the text reads it.
    fn with_clock(&self, events: &EventBatch) -> Result<EventBatch, EngineError> {
        let Some((index, name)) = &self.clock else { return Ok(events.clone()) };
        let mut fields: Vec<Arc<Field>> = events.rows.schema().fields().iter().cloned().collect();
        let mut columns = events.rows.columns().to_vec();
        let at = (*index).min(columns.len());
        fields.insert(at, Arc::new(Field::new(name, DataType::Int64, true)));
        let times: ArrayRef =
            Arc::new(Int64Array::from_iter_values((0..events.len()).map(|row| events.time(row).0)));
        columns.insert(at, times);
        let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
            .map_err(|error| EngineError::Build(error.to_string()))?;
        let mut events = events.clone();
        events.rows = rows;
        Ok(events)
    }
}

impl Engine for JudgedEngine {
    fn streams(&self) -> &[String] {
        &self.streams
    }

    fn feed(&mut self, events: &EventBatch, out: &mut Verdicts) -> Result<(), EngineError> {
        let events = self.with_clock(events)?;
        self.hear(out, |engine, verdicts| engine.feed(&events, verdicts))
    }

    fn advance(&mut self, time: Time, out: &mut Verdicts) -> Result<(), EngineError> {
        self.hear(out, |engine, verdicts| engine.advance(time, verdicts))
    }

    fn snapshot(&self) -> Result<Vec<u8>, SnapshotError> {
        let engine = self.inner.snapshot()?;
        let judge = self.bench.borrow().judge().save();
        let judge = judge.map_err(|error| SnapshotError::Damaged(error.to_string()))?;
        postcard::to_stdvec(&Snapshot { engine, judge })
            .map_err(|error| SnapshotError::Damaged(error.to_string()))
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), SnapshotError> {
        let Snapshot { engine, judge } =
            postcard::from_bytes(snapshot).map_err(|_| SnapshotError::NotASnapshot)?;
        let bench = self.bench.borrow();
        // On a copy first: if either refuses, both are as they were.
        let mut restored = bench.judge().clone();
        restored.load(&judge).map_err(|error| SnapshotError::Damaged(error.to_string()))?;
        self.inner.restore(&engine)?;
        *bench.judge() = restored;
        Ok(())
    }
}

/// The reader's verdicts, lent to the bench until this is dropped: also if the engine panics.
struct Loan<'a> {
    bench: &'a RefCell<Bench>,
    out: &'a mut Verdicts,
}

impl<'a> Loan<'a> {
    fn new(bench: &'a RefCell<Bench>, out: &'a mut Verdicts) -> Loan<'a> {
        let nobody = Verdicts::new(&[], Selection::Alarms, 1, |_: VerdictBatch| Ok(()));
        bench.borrow_mut().out = Some(std::mem::replace(out, nobody));
        Loan { bench, out }
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        if let Ok(mut bench) = self.bench.try_borrow_mut()
            && let Some(lent) = bench.out.take()
        {
            *self.out = lent;
        }
    }
}

/// The inner engine's end of the bench.
struct Seat(Rc<RefCell<Bench>>);

impl Outlet for Seat {
    fn take(&mut self, batch: VerdictBatch) -> Result<(), Closed> {
        let bench = &mut *self.0.borrow_mut();
        batch.iter().try_for_each(|verdict| bench.hear(&verdict))
    }

    fn is_open(&self) -> bool {
        self.0.borrow().out.as_ref().is_none_or(|out| out.check().is_ok())
    }
}

impl Bench {
    fn judge(&self) -> std::sync::MutexGuard<'_, Judge> {
        self.judge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hear(&mut self, verdict: &Verdict<'_>) -> Result<(), Closed> {
        let Some((stream, routes)) = self.routes.get(verdict.stream) else { return Ok(()) };
        if let Some(out) = &mut self.out {
            out.repeat(verdict, *stream)?;
        }
        let (Kind::Value, Some(value)) = (verdict.kind, verdict.value) else { return Ok(()) };
        for route in routes {
            let mut judge = self.judge.lock().unwrap_or_else(PoisonError::into_inner);
            if route.tells != Tells::Check {
                let (group, stratum) = split(verdict.instance.unwrap_or("[]"), route.groups);
                let Some(counts) = judge.counts(route.metric, route.rate, &stratum, &group) else { continue };
                match (route.tells, value) {
                    (Tells::Numerator, Value::UInt(value)) => counts.numerator = value as f64,
                    (Tells::Numerator, Value::Float(value)) => counts.numerator = value,
                    (Tells::Denominator, Value::UInt(value)) => counts.denominator = value,
                    (Tells::Pending, Value::UInt(value)) => counts.pending = value,
                    (Tells::Prior, Value::Float(value)) => counts.prior = Some(value),
                    _ => {}
                }
                continue;
            }
            let changes = judge.check(route.metric, route.rate, verdict.time);
            let has_strata = judge.rules().get(route.metric).is_some_and(|rule| !rule.strata.is_empty());
            drop(judge);
            let (Some(out), Some(first)) = (&mut self.out, self.alarms.get(route.metric)) else { continue };
            for change in changes {
                let instance = has_strata.then_some(change.stratum.as_str());
                let (stream, gap) = (first + change.rate, Value::Float(change.gap));
                if change.raised {
                    out.alarm(verdict.time, stream, instance, gap, &change.message)?;
                } else {
                    out.clear(verdict.time, stream, instance, gap, &change.message)?;
                }
            }
        }
        Ok(())
    }
}

/// The parameters of an instance, a JSON array, taken apart: the first so many, and the rest.
fn split(instance: &str, groups: usize) -> (String, String) {
    let values: Vec<serde_json::Value> = serde_json::from_str(instance).unwrap_or_default();
    let text = |values: &[serde_json::Value]| serde_json::Value::from(values.to_vec()).to_string();
    let (group, stratum) = values.split_at(groups.min(values.len()));
    (text(group), text(stratum))
}
