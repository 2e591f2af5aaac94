//! An engine with a judge behind it: counts of the inner engine go to the judge, alarms of the judge become verdicts
//! among the others.

mod final_trials;
mod group_values;
mod input_rows;
mod pending_counts;
mod pseudonyms;
mod row_counter;
mod state;
mod tap;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use fairstream_core::{
    CapturedState, Engine, EngineError, EventBatch, OnChange, Selection, StateChange, StateError,
    StateReader, Subscription, Time, VerdictSink,
};

use self::final_trials::FinalTrials;
use self::input_rows::InputRows;
use self::pending_counts::{InstanceIndex, PendingCounts};
use self::pseudonyms::Pseudonyms;
use self::row_counter::RowCounter;
use self::tap::{Bindings, CountBinding, Tap, lock};
use crate::compile::CountRole;
use crate::evidence::EvidenceRecorder;
use crate::{Compiled, EvidenceSink, Judge, KeyHash};

/// Evaluates compiled fairness files: an engine for their RTLola text, and the judge of its counts.
///
/// Its verdicts are those of the inner engine, and alarms under the names of the metrics, each after the counts it
/// follows from, at the time of their check. It knows the inner engine by [`Engine`] alone.
pub struct JudgedEngine {
    inner: Box<dyn Engine>,
    /// The streams of the inner engine, then one for each rate.
    streams: Vec<String>,
    judge: Arc<Mutex<Judge>>,
    bindings: Bindings,
    pending: PendingCounts,
    trials: FinalTrials,
    recorder: Option<EvidenceRecorder>,
    /// What takes the place of keys in verdicts, if they are hashed.
    pseudonyms: Option<Pseudonyms>,
    /// What the consumer wants, once the engine has been prepared.
    subscription: Option<Subscription>,
    input_rows: InputRows,
    row_counter: RowCounter,
    /// The streams whose values the judge or the recorder reads.
    read_streams: Vec<usize>,
    /// The streams whose every value starts a check.
    check_streams: Vec<usize>,
    /// A buffer for labels.
    label: String,
}

impl JudgedEngine {
    /// Puts `judge` behind an engine for the compiled text, whose inputs are `columns` in this order. Events have the
    /// [columns](Compiled::columns) of the file. The judge is shared, so that a live view can ask for its state.
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
        let mut counts: Vec<Vec<CountBinding>> = streams.iter().map(|_| Vec::new()).collect();
        let (mut read_streams, mut check_streams) = (Vec::new(), Vec::new());
        for count in compiled.count_streams() {
            let stream = position(&streams, &count.stream)?;
            read_streams.push(stream);
            if count.role == CountRole::Check {
                check_streams.push(stream);
            }
            counts[stream].push(CountBinding {
                metric: count.metric,
                rate: count.rate,
                role: count.role,
                group_params: count.groups,
                instances: InstanceIndex::default(),
            });
        }
        let mut alarms = Vec::new();
        for rule in compiled.rules() {
            alarms.push(streams.len());
            streams.extend(rule.rates.iter().map(|rate| rate.stream.clone()));
        }
        let mut assessments = HashMap::new();
        for of_rate in compiled.streams() {
            if let Some(more) = &of_rate.judged {
                assessments.insert((of_rate.metric, of_rate.rate), streams.len());
                streams.extend(more.all().map(String::clone));
            }
        }
        let trials = FinalTrials::new(compiled, |stream| position(inner.streams(), stream))?;
        read_streams.extend(trials.streams());
        Ok(JudgedEngine {
            inner,
            streams,
            judge,
            bindings: Bindings { counts, alarms, assessments },
            pending: PendingCounts::default(),
            trials,
            recorder: None,
            pseudonyms: None,
            subscription: None,
            input_rows: InputRows::new(compiled, columns)?,
            row_counter: RowCounter::new(compiled),
            read_streams,
            check_streams,
            label: String::new(),
        })
    }

    /// Records every trial when it is counted, with `hash` instead of its key if there is one: in evidence, and in the
    /// instances of verdicts. `start` is when the clock of the inner engine begins.
    ///
    /// # Errors
    /// Trials are never final, or the engine is for another text.
    pub fn with_evidence(
        mut self,
        compiled: &Compiled,
        start: Time,
        sink: EvidenceSink,
        hash: Option<KeyHash>,
    ) -> Result<JudgedEngine, EngineError> {
        if !compiled.is_final() {
            return Err(EngineError::Build("trials without a horizon are never final".to_owned()));
        }
        let keyed = |stream: &String| position(self.inner.streams(), stream);
        let keyed = compiled.trials().iter().flat_map(|layer| &layer.all).map(keyed);
        let keyed = keyed.collect::<Result<HashSet<usize>, EngineError>>()?;
        let of_keys = compiled.expression_of_keys().map(str::to_owned);
        self.pseudonyms = hash.clone().map(|hash| Pseudonyms { hash, keyed, of_keys });
        let recorder = EvidenceRecorder::new(
            compiled,
            start,
            |stream| position(self.inner.streams(), stream),
            sink,
            hash,
        )?;
        self.read_streams.extend(recorder.streams());
        self.recorder = Some(recorder);
        Ok(self)
    }

    /// Lets the inner engine work, with its verdicts going through a [`Tap`].
    fn tapped(
        &mut self,
        out: &mut dyn VerdictSink,
        work: impl FnOnce(&mut dyn Engine, &mut dyn VerdictSink) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let unprepared = || EngineError::Misused("the engine was given events before it was prepared");
        let mut tap = Tap {
            bindings: &mut self.bindings,
            pending: &mut self.pending,
            judge: &self.judge,
            trials: &mut self.trials,
            recorder: self.recorder.as_mut(),
            pseudonyms: self.pseudonyms.as_ref(),
            subscription: self.subscription.as_ref().ok_or_else(unprepared)?,
            out,
            label: &mut self.label,
        };
        let result = work(&mut *self.inner, &mut tap);
        // Also after a failure: what was emitted before it counts.
        let flushed = tap.flush();
        result?;
        Ok(flushed?)
    }

    /// What is wanted of the inner engine: no more than the judge, the recorder and the consumer read. Counts are wanted
    /// when they change, values of check streams always.
    fn inner_subscription(&self, selection: Selection) -> Subscription {
        let all = Subscription::everything();
        let restricted = all.clone().with_changes_of(&self.read_streams, &self.check_streams);
        // A check without new counts decides nothing; but a sweep counts all checks.
        let restricted = match lock(&self.judge).has_sweep() {
            true => restricted,
            false => restricted.with_companions(&self.check_streams),
        };
        match selection {
            Selection::Changes => all,
            Selection::Triggers => restricted,
            Selection::Alarms => restricted.without_triggers(),
        }
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

    fn prepare(&mut self, subscription: &Subscription) -> Result<(), EngineError> {
        if let Some(pseudonyms) =
            self.pseudonyms.as_ref().filter(|_| subscription.selection() == Selection::Changes)
        {
            pseudonyms.check()?;
        }
        self.inner.prepare(&self.inner_subscription(subscription.selection()))?;
        self.subscription = Some(subscription.clone());
        Ok(())
    }

    fn feed(&mut self, events: &EventBatch, out: &mut dyn VerdictSink) -> Result<(), EngineError> {
        let source = events;
        let before = lock(&self.judge).rows().rows;
        let events = self.input_rows.with_inputs(source, before)?;
        let counted = self.row_counter.count(source, &events, lock(&self.judge).rows_mut());
        counted.map_err(|error| EngineError::Build(error.to_string()))?;
        let events = self.input_rows.with_empty_rows(events)?;
        self.tapped(out, |engine, tap| engine.feed(&events, tap))
    }

    fn advance(&mut self, time: Time, out: &mut dyn VerdictSink) -> Result<(), EngineError> {
        self.tapped(out, |engine, tap| engine.advance(time, tap))
    }

    fn capture(&self) -> Result<Box<dyn CapturedState>, StateError> {
        self.copy_state()
    }

    fn changes(&self, state: &dyn StateReader) -> Result<Vec<StateChange>, StateError> {
        self.compare_state(state)
    }

    fn resume(
        &mut self,
        state: &dyn StateReader,
        on_change: OnChange,
    ) -> Result<Vec<StateChange>, StateError> {
        self.read_state(state, on_change)
    }
}
