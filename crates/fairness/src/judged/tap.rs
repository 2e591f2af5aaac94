//! Taps the verdicts of the inner engine: counts go to the judge, every verdict that the consumer wants goes on to it,
//! and so do the judge's alarms.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fairstream_core::{Cancelled, Instance, Kind, Subscription, Time, Value, VerdictRef, VerdictSink};

use super::final_trials::FinalTrials;
use super::pending_counts::{InstanceIndex, PendingCounts};
use super::pseudonyms::Pseudonyms;
use crate::compile::CountRole;
use crate::evidence::EvidenceRecorder;
use crate::{AlarmChange, AlarmDetails, Assessment, Judge, Outcome};

/// What the values of one stream of the inner engine are to one rate.
pub(super) struct CountBinding {
    pub(super) metric: usize,
    pub(super) rate: usize,
    pub(super) role: CountRole,
    /// How many of its parameters are the group; the others are the stratum.
    pub(super) group_params: usize,
    /// The groups that the stream has reported.
    pub(super) instances: InstanceIndex,
}

/// Which streams the judge reads, and under which streams it reports. Fixed when the engine is built, but for the
/// instances that bindings have seen.
pub(super) struct Bindings {
    /// For each stream of the inner engine.
    pub(super) counts: Vec<Vec<CountBinding>>,
    /// For each rule the stream of its first rate's alarms.
    pub(super) alarms: Vec<usize>,
    /// For each metric and rate with a guarantee the first of its streams.
    pub(super) assessments: HashMap<(usize, usize), usize>,
}

/// Stands between the inner engine and the consumer for the time of one call.
pub(super) struct Tap<'a> {
    pub(super) bindings: &'a mut Bindings,
    pub(super) pending: &'a mut PendingCounts,
    pub(super) judge: &'a Mutex<Judge>,
    pub(super) trials: &'a mut FinalTrials,
    pub(super) recorder: Option<&'a mut EvidenceRecorder>,
    pub(super) pseudonyms: Option<&'a Pseudonyms>,
    /// What the consumer wants.
    pub(super) subscription: &'a Subscription,
    pub(super) out: &'a mut dyn VerdictSink,
    /// A buffer for labels.
    pub(super) label: &'a mut String,
}

impl VerdictSink for Tap<'_> {
    fn emit(&mut self, verdict: &VerdictRef<'_>) -> Result<(), Cancelled> {
        if self.subscription.wants(verdict.kind, verdict.stream) {
            match self.pseudonyms {
                Some(pseudonyms) => pseudonyms.emit(verdict, self.out)?,
                None => self.out.emit(verdict)?,
            }
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.observe(verdict);
        }
        let (Kind::Value, Some(value)) = (verdict.kind, verdict.value) else { return Ok(()) };
        let recorder = &mut self.recorder;
        self.trials.observe(verdict, self.judge, |trial| {
            recorder.iter_mut().for_each(|recorder| recorder.place(trial.rate, trial.block));
        });
        let Some(bindings) = self.bindings.counts.get_mut(verdict.stream) else { return Ok(()) };
        let mut first_check = None;
        for (number, binding) in bindings.iter_mut().enumerate() {
            if binding.role == CountRole::Check {
                first_check = first_check.or(Some(number));
                continue;
            }
            let instance = verdict.instance.unwrap_or(&"[]");
            let found = binding.instances.find(instance, self.label);
            let recorder = self.recorder.as_deref_mut();
            let index = found.or_else(|| {
                register_group(binding, instance, self.judge, self.pending, recorder, self.label)
            });
            if let Some(index) = index {
                self.pending.set(index, binding.role, value);
            }
        }
        match first_check {
            None => Ok(()),
            Some(first) => self.run_checks(verdict.stream, first, verdict.time),
        }
    }

    fn check(&self) -> Result<(), Cancelled> {
        self.out.check()
    }
}

impl Tap<'_> {
    /// Passes on what has been collected: counts, so that a live view sees all of them; and evidence.
    pub(super) fn flush(&mut self) -> Result<(), Cancelled> {
        if !self.pending.is_empty() {
            self.hand_over();
        }
        self.recorder.as_mut().map_or(Ok(()), |recorder| recorder.flush())
    }

    /// Gives the judge all counts that have changed. Where the trials of a group become fewer, they have left a window.
    fn hand_over(&mut self) {
        let recorder = &mut self.recorder;
        self.pending.hand_over(&mut lock(self.judge), |rate| {
            recorder.iter_mut().for_each(|recorder| recorder.note_left(rate));
        });
    }

    /// Checks the rates whose check stream has emitted, from the binding `first` on.
    fn run_checks(&mut self, stream: usize, first: usize, time: Time) -> Result<(), Cancelled> {
        self.hand_over();
        for at in first..self.bindings.counts[stream].len() {
            let CountBinding { metric, rate, role, .. } = self.bindings.counts[stream][at];
            if role == CountRole::Check {
                // A check of many strata takes time, and nothing may be emitted by it.
                self.out.check()?;
                self.run_check(metric, rate, time)?;
            }
        }
        Ok(())
    }

    fn run_check(&mut self, metric: usize, rate: usize, time: Time) -> Result<(), Cancelled> {
        let mut judge = lock(self.judge);
        if let Some(recorder) = &mut self.recorder {
            recorder.check(&judge, (metric, rate), time)?;
            judge.set_recorded(recorder.head());
        }
        let wants = |stream: &usize| self.subscription.wants(Kind::Value, *stream);
        let assessment_streams = self.bindings.assessments.get(&(metric, rate)).copied().filter(wants);
        let to_check: Vec<String> = match assessment_streams {
            Some(_) => judge.strata_to_check(metric, rate).map(str::to_owned).collect(),
            None => Vec::new(),
        };
        let changes = judge.check(metric, rate, time);
        if to_check.is_empty() && changes.is_empty() {
            return Ok(());
        }
        let has_strata = judge.rules().get(metric).is_some_and(|rule| !rule.strata.is_empty());
        let details: Vec<String> = changes.iter().map(|change| details(&judge, metric, change)).collect();
        let assessed: Vec<(String, Assessment)> = to_check
            .into_iter()
            .filter_map(|stratum| judge.assess(metric, rate, &stratum).map(|of| (stratum, of)))
            .collect();
        // The consumer may ask the judge for its state before it takes the next one.
        drop(judge);
        for (stratum, assessment) in &assessed {
            if let Some(first) = assessment_streams {
                let instance = has_strata.then_some(stratum.as_str());
                emit_assessment(self.out, time, first, instance, stratum, assessment)?;
            }
        }
        let Some(first) = self.bindings.alarms.get(metric) else { return Ok(()) };
        for (change, details) in changes.iter().zip(&details) {
            let instance = has_strata.then_some(change.stratum.as_str());
            let (stream, gap) = (first + change.rate, change.gap);
            if change.raised {
                self.out.alarm(time, stream, instance, gap, &change.message, details)?;
            } else {
                self.out.clear(time, stream, instance, gap, &change.message, details)?;
            }
        }
        Ok(())
    }
}

/// What an alarm that is raised or cleared rests on, as a JSON object.
fn details(judge: &Judge, metric: usize, change: &AlarmChange) -> String {
    let details = judge
        .rules()
        .get(metric)
        .map(|rule| AlarmDetails::new(rule, change.rate, &change.stratum, &change.basis));
    serde_json::to_string(&details).unwrap_or_default()
}

pub(super) fn lock(judge: &Mutex<Judge>) -> MutexGuard<'_, Judge> {
    judge.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stream reports a group for the first time: its counts get a place.
fn register_group(
    binding: &mut CountBinding,
    instance: &dyn Instance,
    judge: &Mutex<Judge>,
    pending: &mut PendingCounts,
    recorder: Option<&mut EvidenceRecorder>,
    label: &mut String,
) -> Option<usize> {
    label.clear();
    instance.label(label);
    let (group, stratum) = split(label, binding.group_params);
    let mut judge = lock(judge);
    let slot = judge.slot(binding.metric, binding.rate, &stratum, &group)?;
    let index = pending.add(slot, &judge);
    binding.instances.insert(instance, label, index);
    if let Some(recorder) = recorder {
        recorder.register_group((binding.metric, binding.rate), &stratum, &group);
    }
    Some(index)
}

/// Emits how the evidence stands, in the order of [`JudgedStreams::all`](crate::JudgedStreams).
fn emit_assessment(
    out: &mut dyn VerdictSink,
    time: Time,
    first: usize,
    instance: Option<&str>,
    stratum: &str,
    assessment: &Assessment,
) -> Result<(), Cancelled> {
    for (group, interval) in &assessment.groups {
        let group = joined(group, stratum);
        out.value(time, first, Some(&group), Value::Float(interval.low))?;
        out.value(time, first + 1, Some(&group), Value::Float(interval.high))?;
    }
    if let Some(gap) = assessment.gap {
        out.value(time, first + 2, instance, Value::Float(gap.low))?;
        out.value(time, first + 3, instance, Value::Float(gap.high))?;
    }
    out.value(time, first + 4, instance, Value::Float(finite_exp(assessment.log_e_value)))?;
    if let Some(log) = assessment.log_p_value {
        out.value(time, first + 5, instance, Value::Float(finite_exp(log)))?;
    }
    if let Outcome::NotYet { further: Some(further) } = assessment.outcome {
        out.value(time, first + 6, instance, Value::UInt(further))?;
    }
    out.value(time, first + 7, instance, Value::UInt(assessment.small_groups))?;
    out.value(time, first + 8, instance, Value::Text(assessment.verdict()))
}

/// A number from its logarithm; the nearest float that is neither infinite nor 0, as formats of verdicts have no
/// infinity, and no e-value or p-value is 0.
fn finite_exp(log: f64) -> f64 {
    log.exp().clamp(f64::MIN_POSITIVE, f64::MAX)
}

/// Two JSON arrays as one.
fn joined(one: &str, other: &str) -> String {
    let inside = |array: &str| array.trim_start_matches('[').trim_end_matches(']').to_owned();
    let parts: Vec<String> =
        [inside(one), inside(other)].into_iter().filter(|part| !part.is_empty()).collect();
    format!("[{}]", parts.join(","))
}

/// The parameters of an instance, a JSON array, split into the first `group_params` and the others.
pub(super) fn split(instance: &str, group_params: usize) -> (String, String) {
    let values: Vec<serde_json::Value> = serde_json::from_str(instance).unwrap_or_default();
    let text = |values: &[serde_json::Value]| serde_json::Value::from(values.to_vec()).to_string();
    let (group, stratum) = values.split_at(group_params.min(values.len()));
    (text(group), text(stratum))
}
