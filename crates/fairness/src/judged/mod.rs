//! An engine with a judge behind it: what the inner engine says of counts goes to the judge, what the judge
//! says becomes verdicts among the others.

mod bench;
mod desk;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use fairstream_core::{Engine, EngineError, EventBatch, Selection, SnapshotError, Time, Verdicts};
use serde::{Deserialize, Serialize};

use self::bench::{Bench, Loan, Route, Seat};
use self::desk::{Desk, Index};
use crate::compile::CountRole;
use crate::evidence::EvidenceRecorder;
use crate::{Compiled, EvidenceOutlet, Judge, KeyHash};

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

/// What is written down of both.
#[derive(Serialize, Deserialize)]
struct Snapshot {
    engine: Vec<u8>,
    judge: Vec<u8>,
    /// Trials that have not been taken down, if they are.
    trail: Option<Vec<u8>>,
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
        let mut routes: Vec<Vec<Route>> = streams.iter().map(|_| Vec::new()).collect();
        let (mut heard, mut bells) = (Vec::new(), Vec::new());
        for route in compiled.count_streams() {
            let stream = position(&streams, &route.stream)?;
            heard.push(stream);
            if route.role == CountRole::Check {
                bells.push(stream);
            }
            let &crate::compile::CountStream { metric, rate, role: tells, groups, .. } = route;
            routes[stream].push(Route { metric, rate, tells, groups, index: Index::default() });
        }
        let mut alarms = Vec::new();
        for rule in compiled.rules() {
            alarms.push(streams.len());
            streams.extend(rule.rates.iter().map(|rate| rate.stream.clone()));
        }
        let mut judged = HashMap::new();
        for of_rate in compiled.streams() {
            if let Some(more) = &of_rate.judged {
                judged.insert((of_rate.metric, of_rate.rate), streams.len());
                streams.extend(more.all().map(String::clone));
            }
        }
        let clock = compiled.clock().and_then(|clock| {
            columns.iter().position(|column| *column == clock).map(|index| (index, clock.to_owned()))
        });
        let (desk, label) = (Desk::default(), String::new());
        let bench = Bench { judge, routes, desk, alarms, judged, trail: None, out: None, label };
        let bench = Rc::new(RefCell::new(bench));
        Ok(JudgedEngine { inner, streams, verdicts: None, bench, clock, heard, bells })
    }

    /// Takes down every trial when it is counted, with `hash` instead of its key if there is one.
    ///
    /// # Errors
    /// Trials are never final, or the engine is for another text.
    pub fn with_evidence(
        mut self,
        compiled: &Compiled,
        outlet: EvidenceOutlet,
        hash: Option<KeyHash>,
    ) -> Result<JudgedEngine, EngineError> {
        if !compiled.is_final() {
            return Err(EngineError::Build("trials without a horizon are never final".to_owned()));
        }
        let trail =
            EvidenceRecorder::new(compiled, |stream| position(self.inner.streams(), stream), outlet, hash)?;
        self.heard.extend(trail.streams());
        self.bench.borrow_mut().trail = Some(trail);
        Ok(self)
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
        let flushed = self.bench.borrow_mut().flush();
        result?;
        Ok(flushed?)
    }

    /// Where the inner engine puts its verdicts: no more of them than the judge and the reader want. Counts are
    /// wanted when they are new; when to judge, always.
    fn verdicts_for(&self, selection: Selection) -> Verdicts {
        let verdicts = Verdicts::heard_by(Selection::Changes, Seat(Rc::clone(&self.bench)));
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

/// The index of a stream of the inner engine.
fn position(streams: &[String], stream: &str) -> Result<usize, EngineError> {
    let missing =
        || EngineError::Build(format!("the engine has no stream `{stream}`: it is for another text"));
    streams.iter().position(|name| name == stream).ok_or_else(missing)
}

impl Engine for JudgedEngine {
    fn streams(&self) -> &[String] {
        &self.streams
    }

    fn prepare(&mut self, out: &mut Verdicts) -> Result<(), EngineError> {
        self.hear(out, |engine, verdicts| engine.prepare(verdicts))
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
        let trail = self.bench.borrow().trail.as_ref().and_then(EvidenceRecorder::save);
        postcard::to_stdvec(&Snapshot { engine, judge, trail })
            .map_err(|error| SnapshotError::Damaged(error.to_string()))
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), SnapshotError> {
        let Snapshot { engine, judge, trail } =
            postcard::from_bytes(snapshot).map_err(|_| SnapshotError::NotASnapshot)?;
        let mut bench = self.bench.borrow_mut();
        let trail = bench.trail.as_ref().map(|known| known.decode(trail.as_deref())).transpose();
        let trail = trail.map_err(|reason| SnapshotError::Damaged(reason.to_owned()))?;
        // On a copy first: if either refuses, both are as they were.
        let mut restored = bench.judge().clone();
        restored.load(&judge).map_err(|error| SnapshotError::Damaged(error.to_string()))?;
        self.inner.restore(&engine)?;
        *bench.judge() = restored;
        bench.forget();
        if let (Some(known), Some(trail)) = (&mut bench.trail, trail) {
            known.resume(trail);
        }
        Ok(())
    }
}
