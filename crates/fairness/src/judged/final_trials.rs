//! Trials that become final, one after another, as the streams of the trial layer report them: what each adds to a rate,
//! in the order in which they became final.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use fairstream_core::{EngineError, Instance, Time, Value, VerdictRef};

use super::tap::{lock, split};
use crate::judge::GroupSlot;
use crate::{Compiled, Judge};

/// The streams of the trial layer that are read, and what they have reported.
#[derive(Default)]
pub(super) struct FinalTrials {
    /// For each stream of the inner engine, what it is.
    streams: Vec<Option<TrialStream>>,
    rates: Vec<CountedRate>,
    /// A buffer for labels.
    label: String,
}

/// A stream with a value for each trial.
struct TrialStream {
    /// The instance that had a value last. Trials become final in the order of opening, and the value of a trial may be
    /// reported again as long as the trial has not been counted.
    last: Option<u64>,
    /// Indices of the rates whose numerator it is.
    numerator_of: Vec<usize>,
    /// Indices of the rates whose denominator it is.
    denominator_of: Vec<usize>,
}

/// A rate with a guarantee.
struct CountedRate {
    metric: usize,
    rate: usize,
    /// How many of the parameters behind the key are the group; the others are the stratum.
    groups: usize,
    /// Whether the trials counted at this instant that have no numerator yet are in the denominator; unused if all are.
    is_in: VecDeque<bool>,
    has_denominator: bool,
    /// Groups by the parameters behind the key.
    slots: HashMap<String, GroupSlot>,
}

/// A trial that has been given to the judge.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountedTrial {
    pub(super) rate: (usize, usize),
    /// The number of its block.
    pub(super) block: Option<u64>,
}

impl FinalTrials {
    /// `find` returns the index of a stream.
    pub(super) fn new(
        compiled: &Compiled,
        find: impl Fn(&str) -> Result<usize, EngineError>,
    ) -> Result<FinalTrials, EngineError> {
        let mut this = FinalTrials::default();
        for layer in compiled.trials() {
            for of in &layer.rates {
                if compiled.rules().get(of.metric).is_none_or(|rule| rule.guarantee.is_none()) {
                    continue;
                }
                let has_denominator = of.denominator != layer.counted;
                let rate = this.rates.len();
                this.stream(find(&of.numerator)?).numerator_of.push(rate);
                if has_denominator {
                    this.stream(find(&of.denominator)?).denominator_of.push(rate);
                }
                this.rates.push(CountedRate {
                    metric: of.metric,
                    rate: of.rate,
                    groups: layer.groups,
                    is_in: VecDeque::new(),
                    has_denominator,
                    slots: HashMap::new(),
                });
            }
        }
        Ok(this)
    }

    fn stream(&mut self, index: usize) -> &mut TrialStream {
        if self.streams.len() <= index {
            self.streams.resize_with(index + 1, || None);
        }
        self.streams[index].get_or_insert_with(|| TrialStream {
            last: None,
            numerator_of: Vec::new(),
            denominator_of: Vec::new(),
        })
    }

    /// The streams that are read.
    pub(super) fn streams(&self) -> impl Iterator<Item = usize> {
        self.streams.iter().enumerate().filter(|(_, stream)| stream.is_some()).map(|(index, _)| index)
    }

    /// Gives the judge the trial that a value is about, if it is final with it. `counted` learns of each.
    pub(super) fn observe(
        &mut self,
        verdict: &VerdictRef<'_>,
        judge: &Mutex<Judge>,
        mut counted: impl FnMut(CountedTrial),
    ) {
        let Some(Some(stream)) = self.streams.get_mut(verdict.stream) else { return };
        let (Some(instance), Some(value)) = (verdict.instance, verdict.value) else { return };
        if let Some(number) = instance.number() {
            if stream.last.is_some_and(|last| number <= last) {
                return;
            }
            stream.last = Some(number);
        }
        let value = match value {
            Value::UInt(value) => value as f64,
            Value::Float(value) => value,
            _ => return,
        };
        for rate in &stream.denominator_of {
            self.rates[*rate].is_in.push_back(value != 0.0);
        }
        for rate in &stream.numerator_of {
            let rate = &mut self.rates[*rate];
            if rate.has_denominator && rate.is_in.pop_front() != Some(true) {
                continue;
            }
            let Some(block) = rate.count(instance, value, verdict.time, judge, &mut self.label) else {
                continue;
            };
            counted(CountedTrial { rate: (rate.metric, rate.rate), block });
        }
    }

    /// The instance of each stream that had a value last, by the index of the stream.
    pub(super) fn last(&self) -> impl Iterator<Item = (usize, u64)> {
        let streams = self.streams.iter().enumerate();
        streams.filter_map(|(index, stream)| Some((index, stream.as_ref()?.last?)))
    }

    /// Forgets every trial; `last` gives the instance of a stream that had a value last.
    pub(super) fn resume(&mut self, last: impl Fn(usize) -> Option<u64>) {
        for (index, stream) in self.streams.iter_mut().enumerate() {
            stream.iter_mut().for_each(|stream| stream.last = last(index));
        }
        self.rates.iter_mut().for_each(|rate| {
            rate.slots.clear();
            rate.is_in.clear();
        });
    }
}

impl CountedRate {
    /// Counts a trial, and returns the number of its block; `None` if it is of no group.
    fn count(
        &mut self,
        instance: &dyn Instance,
        value: f64,
        time: Time,
        judge: &Mutex<Judge>,
        label: &mut String,
    ) -> Option<Option<u64>> {
        label.clear();
        instance.label_behind_first(label);
        let mut judge = lock(judge);
        let slot = match self.slots.get(label.as_str()) {
            Some(slot) => *slot,
            None => {
                let (group, stratum) = split(label, self.groups);
                let slot = judge.slot(self.metric, self.rate, &stratum, &group)?;
                self.slots.insert(label.clone(), slot);
                slot
            }
        };
        Some(judge.count_trial(slot, value, time))
    }
}
