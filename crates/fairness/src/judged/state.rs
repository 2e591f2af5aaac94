//! State of a judged engine: that of the inner engine, and beside it that of the judge. The names of fields are the format.

use std::collections::{BTreeMap, BTreeSet};

use fairstream_core::{CapturedState, OnChange, StateChange, StateError, StateReader, StateWriter};
use serde::{Deserialize, Serialize};

use super::JudgedEngine;
use super::tap::lock;
use crate::evidence::{EvidenceRecorder, RecorderCopy, RecorderDocument};
use crate::judge::{CarriedRates, JudgeCopy, JudgeDocument, RateCarryOver};

/// The document with everything but tables.
const DOCUMENT: &str = "judge";

/// The version that is written, and the newest that is read.
const VERSION: u64 = 1;

/// What is read before anything else.
#[derive(Deserialize)]
struct JudgedVersion {
    version: u64,
}

/// What is remembered beside the inner engine.
#[derive(Debug, Serialize, Deserialize)]
struct JudgedDocument {
    version: u64,
    /// Time of the last row, in nanoseconds since 1970 or since the start of the trace.
    last_row: Option<i64>,
    /// For each stream of the trial layer the trial that became final last, by the number of its instance.
    final_trials: BTreeMap<String, u64>,
    judge: JudgeDocument,
    /// What the record of evidence needs to go on, if there is one.
    evidence: Option<RecorderDocument>,
}

/// A copy of the engine and the judge together.
struct JudgedCopy {
    inner: Box<dyn CapturedState>,
    judge: JudgeCopy,
    last_row: Option<i64>,
    final_trials: BTreeMap<String, u64>,
    recorder: Option<RecorderCopy>,
}

impl CapturedState for JudgedCopy {
    fn write(self: Box<Self>, to: &mut dyn StateWriter) -> Result<(), StateError> {
        let JudgedCopy { inner, judge, last_row, final_trials, recorder } = *self;
        inner.write(to)?;
        let document = JudgedDocument {
            version: VERSION,
            last_row,
            final_trials,
            judge: judge.write(to)?,
            evidence: recorder.map(|recorder| recorder.write(to)).transpose()?,
        };
        let text = serde_json::to_string_pretty(&document);
        to.document(DOCUMENT, &text.map_err(|error| StateError::Io(error.to_string()))?)
    }
}

fn document(state: &dyn StateReader) -> Result<JudgedDocument, StateError> {
    let missing =
        || StateError::Damaged(format!("there is no document `{DOCUMENT}`: it is not of a fairness file"));
    let text = state.document(DOCUMENT)?.ok_or_else(missing)?;
    let unreadable = |error: serde_json::Error| StateError::Damaged(format!("`{DOCUMENT}.json`: {error}"));
    let JudgedVersion { version } = serde_json::from_str(&text).map_err(unreadable)?;
    if version > VERSION {
        return Err(StateError::Version { found: version, known: VERSION });
    }
    serde_json::from_str(&text).map_err(unreadable)
}

/// What differs from a state, and what can be carried over.
struct Difference {
    document: JudgedDocument,
    /// The parts of the inner engine that have changed.
    changed: BTreeSet<String>,
    rates: Vec<Vec<RateCarryOver>>,
    changes: Vec<StateChange>,
}

impl Difference {
    /// Whether a stream of the inner engine is what it was.
    fn is_unchanged(&self, stream: &str) -> bool {
        !self.changed.contains(&format!("stream `{stream}`"))
    }
}

impl JudgedEngine {
    pub(super) fn copy_state(&self) -> Result<Box<dyn CapturedState>, StateError> {
        let judge = lock(&self.judge);
        if judge.has_sweep() {
            return Err(StateError::Io(
                "a sweep covers a whole run, and has no state to continue from".to_owned(),
            ));
        }
        Ok(Box::new(JudgedCopy {
            inner: self.inner.capture()?,
            judge: judge.copy_state(),
            last_row: self.input_rows.last(),
            final_trials: self
                .trials
                .last()
                .map(|(stream, last)| (self.streams[stream].clone(), last))
                .collect(),
            recorder: self.recorder.as_ref().map(EvidenceRecorder::copy_state),
        }))
    }

    pub(super) fn compare_state(&self, state: &dyn StateReader) -> Result<Vec<StateChange>, StateError> {
        Ok(self.difference(state)?.changes)
    }

    /// The judge's changes come first: they say what those of the streams mean.
    fn difference(&self, state: &dyn StateReader) -> Result<Difference, StateError> {
        let document = document(state)?;
        let of_streams = self.inner.changes(state)?;
        let changed: BTreeSet<String> = of_streams.iter().map(|change| change.part.clone()).collect();
        let is_counted_anew = |metric: usize, rate: usize| {
            let counts = self.bindings.counts.iter().enumerate();
            let of_rate = counts.filter(|(_, counts)| {
                counts.iter().any(|count| (count.metric, count.rate) == (metric, rate))
            });
            of_rate
                .into_iter()
                .any(|(stream, _)| changed.contains(&format!("stream `{}`", self.streams[stream])))
        };
        let CarriedRates { rates, mut changes } =
            lock(&self.judge).compare_state(&document.judge, is_counted_anew);
        let record =
            |how: &str| StateChange { part: "the record of evidence".to_owned(), how: how.to_owned() };
        match (&self.recorder, &document.evidence) {
            (Some(_), None) => {
                changes.push(record("is new: trials that were open are recorded without their indicators"))
            }
            (None, Some(_)) => changes.push(record("ends: no evidence is written any more")),
            _ => {}
        }
        changes.extend(of_streams);
        Ok(Difference { document, changed, rates, changes })
    }

    pub(super) fn read_state(
        &mut self,
        state: &dyn StateReader,
        on_change: OnChange,
    ) -> Result<Vec<StateChange>, StateError> {
        let difference = self.difference(state)?;
        if on_change == OnChange::Refuse && !difference.changes.is_empty() {
            return Err(StateError::Changed(difference.changes));
        }
        let Difference { document, rates, .. } = &difference;
        let is_unchanged = |stream: &str| difference.is_unchanged(stream);
        let judge = lock(&self.judge).read_state(&document.judge, rates, state)?;
        let recorded = self.recorder.as_ref().zip(document.evidence.as_ref()).map(|(recorder, document)| {
            let is_carried_over =
                |(metric, rate): (usize, usize)| rates[metric][rate] == RateCarryOver::Everything;
            recorder.read_state(document, state, is_unchanged, is_carried_over)
        });
        let recorded = recorded.transpose()?;
        // Last, as it cannot be undone: if it refuses, everything is as it was.
        self.inner.resume(state, on_change)?;
        *lock(&self.judge) = judge;
        self.input_rows.resume(document.last_row);
        let streams = &self.streams;
        self.trials.resume(|stream| {
            let name = &streams[stream];
            document.final_trials.get(name).copied().filter(|_| is_unchanged(name))
        });
        self.pending.clear();
        self.bindings.counts.iter_mut().flatten().for_each(|binding| binding.instances.clear());
        if let (Some(recorder), Some(recorded)) = (&mut self.recorder, recorded) {
            recorder.resume(recorded);
        }
        Ok(difference.changes)
    }
}
