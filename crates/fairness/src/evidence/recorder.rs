//! Records trials when they are counted, from the values of the trial layer and the checks of each rate.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use fairstream_core::{Cancelled, EngineError, Kind, Time, Value, VerdictRef};

use super::replay::{METHOD, RateRule};
use super::rows::RowWriter;
use super::{ChainHead, EvidenceRow, EvidenceSink, KeyHash, TrialRow};
use crate::compile::TrialStreams;
use crate::{Compiled, Judge};

/// Records every trial when it is counted.
pub(crate) struct EvidenceRecorder {
    sink: EvidenceSink,
    hash: Option<KeyHash>,
    pub(super) layers: Vec<TrialStreams>,
    /// For each stream its signals, each with the index of its layer.
    signals: HashMap<usize, Vec<(usize, TrialSignal)>>,
    /// For each metric and rate: the name of its alarms, and its rule.
    pub(super) rate_rules: BTreeMap<(usize, usize), (String, RateRule)>,
    pub(super) state: RecorderState,
    rows: RowWriter,
}

/// What a value of a stream means for a trial.
#[derive(Clone, Copy, Debug)]
enum TrialSignal {
    Counted,
    /// A fact holds; the index of the fact.
    Fact(usize),
    Numerator(usize),
    Denominator(usize),
}

/// What outlives the program.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecorderState {
    pub(super) layers: Vec<PendingTrials>,
    /// State of each rate, by metric and rate.
    pub(super) rates: BTreeMap<(usize, usize), RateState>,
    /// The rows written so far.
    pub(super) head: ChainHead,
    /// When the clock began, in nanoseconds since 1970: steps of windows are counted from then.
    pub(super) clock: i64,
}

/// Trials of one layer that have not been counted.
#[derive(Clone, Debug, Default)]
pub(super) struct PendingTrials {
    /// Facts that hold, by key.
    pub(super) facts: HashMap<String, BTreeSet<usize>>,
    /// Parameters of final trials and when they became final, in nanoseconds since 1970; in that order.
    pub(super) ended: Vec<(String, i64)>,
    pub(super) is_ended: HashSet<String>,
    /// Numerator and denominator that each trial adds to each rate of the layer.
    pub(super) adds: HashMap<String, Vec<(f64, f64)>>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct RateState {
    pub(super) is_announced: bool,
    /// Number of checks at which anything was recorded.
    pub(super) checks: u64,
    /// Strata and groups registered so far.
    pub(super) groups: BTreeSet<(String, String)>,
    /// Strata and groups registered since the last check.
    pub(super) new: Vec<(String, String)>,
    /// Whether trials have left the window since the last check.
    pub(super) has_left: bool,
    /// Trials that are counted but not written.
    pub(super) waiting: Vec<WaitingTrial>,
    /// The blocks of trials that are not written, in the order in which they became final; with a guarantee.
    pub(super) blocks: VecDeque<Option<u64>>,
}

/// A trial that has not been written.
#[derive(Clone, Debug)]
pub(super) struct WaitingTrial {
    pub(super) ended: i64,
    pub(super) key: String,
    pub(super) group: String,
    pub(super) stratum: String,
    pub(super) indicators: String,
    pub(super) value: f64,
}

impl EvidenceRecorder {
    /// `find` returns the index of a stream; the clock begins at `start`.
    pub(crate) fn new(
        compiled: &Compiled,
        start: Time,
        find: impl Fn(&str) -> Result<usize, EngineError>,
        sink: EvidenceSink,
        hash: Option<KeyHash>,
    ) -> Result<EvidenceRecorder, EngineError> {
        let layers = compiled.trials().to_vec();
        let mut signals: HashMap<usize, Vec<(usize, TrialSignal)>> = HashMap::new();
        for (layer, streams) in layers.iter().enumerate() {
            let mut add = |stream: &str, signal| -> Result<(), EngineError> {
                signals.entry(find(stream)?).or_default().push((layer, signal));
                Ok(())
            };
            add(&streams.counted, TrialSignal::Counted)?;
            for (index, (_, stream)) in streams.facts.iter().enumerate() {
                add(stream, TrialSignal::Fact(index))?;
            }
            for (index, rate) in streams.rates.iter().enumerate() {
                add(&rate.numerator, TrialSignal::Numerator(index))?;
                add(&rate.denominator, TrialSignal::Denominator(index))?;
            }
        }
        let rate_rules = compiled.streams().iter().filter_map(|streams| {
            let rule = compiled.rules().get(streams.metric)?;
            let of_rate = rule.rates.get(streams.rate)?;
            let rate_rule = RateRule {
                rule: rule.clone(),
                rate: streams.rate,
                prior_varies: streams.prior.is_some(),
                method: METHOD,
                clock: 0,
            };
            Some(((streams.metric, streams.rate), (of_rate.stream.clone(), rate_rule)))
        });
        let rate_rules: BTreeMap<_, _> = rate_rules.collect();
        let state = RecorderState {
            layers: layers.iter().map(|_| PendingTrials::default()).collect(),
            rates: rate_rules.keys().map(|rate| (*rate, RateState::default())).collect(),
            head: ChainHead::default(),
            clock: start.0,
        };
        Ok(EvidenceRecorder { sink, hash, layers, signals, rate_rules, state, rows: RowWriter::default() })
    }

    /// The streams whose values it needs.
    pub(crate) fn streams(&self) -> impl Iterator<Item = usize> {
        self.signals.keys().copied()
    }

    /// Takes note of a value if it concerns a trial.
    pub(crate) fn observe(&mut self, verdict: &VerdictRef<'_>) {
        let (Kind::Value, Some(instance)) = (verdict.kind, verdict.instance) else { return };
        let Some(signals) = self.signals.get(&verdict.stream) else { return };
        let mut label = String::new();
        instance.label(&mut label);
        let instance = label.as_str();
        for (layer, signal) in signals {
            let rates = self.layers[*layer].rates.len();
            let layer = &mut self.state.layers[*layer];
            let number = match verdict.value {
                Some(Value::UInt(number)) => number as f64,
                Some(Value::Float(number)) => number,
                _ => 0.0,
            };
            match *signal {
                TrialSignal::Fact(fact) => {
                    if verdict.value == Some(Value::Bool(true)) {
                        layer.facts.entry(key_of(instance)).or_default().insert(fact);
                    }
                }
                TrialSignal::Counted => {
                    // The clock of a trial may tick again before the trial is counted.
                    if layer.is_ended.insert(instance.to_owned()) {
                        layer.ended.push((instance.to_owned(), verdict.time.0));
                    }
                }
                TrialSignal::Numerator(rate) | TrialSignal::Denominator(rate) => {
                    let adds =
                        layer.adds.entry(instance.to_owned()).or_insert_with(|| vec![(0.0, 0.0); rates]);
                    match signal {
                        TrialSignal::Numerator(_) => adds[rate].0 = number,
                        _ => adds[rate].1 = number,
                    }
                }
            }
        }
    }

    /// Registers a group of a rate, so that it is recorded even without trials.
    pub(crate) fn register_group(&mut self, rate: (usize, usize), stratum: &str, group: &str) {
        if let Some(rate) = self.state.rates.get_mut(&rate) {
            let pair = (stratum.to_owned(), group.to_owned());
            if rate.groups.insert(pair.clone()) {
                rate.new.push(pair);
            }
        }
    }

    /// Notes that trials of a rate have left its window.
    pub(crate) fn note_left(&mut self, rate: (usize, usize)) {
        if let Some(rate) = self.state.rates.get_mut(&rate) {
            rate.has_left = true;
        }
    }

    /// Notes the block of the trial of a rate that has become final.
    pub(crate) fn place(&mut self, rate: (usize, usize), block: Option<u64>) {
        if let Some(rate) = self.state.rates.get_mut(&rate) {
            rate.blocks.push_back(block);
        }
    }

    /// Writes the trials that a rate has counted. To be called before the judge checks the rate.
    pub(crate) fn check(
        &mut self,
        judge: &Judge,
        (metric, rate): (usize, usize),
        time: Time,
    ) -> Result<(), Cancelled> {
        self.collect_ended((metric, rate));
        let (Some((name, rule)), Some(state)) =
            (self.rate_rules.get(&(metric, rate)), self.state.rates.get_mut(&(metric, rate)))
        else {
            return Ok(());
        };
        // An engine may leave out checks without new counts.
        let has_left = std::mem::take(&mut state.has_left);
        let has_new = !state.new.is_empty() || !state.waiting.is_empty();
        if !has_new && !has_left {
            return Ok(());
        }
        let clock = self.state.clock;
        let head = &mut self.state.head;
        let mut push = |row: EvidenceRow| self.rows.push(time, &row, head.add(time, &row));
        if !state.is_announced {
            state.is_announced = true;
            let rule = match rule.rule.window {
                Some(_) => RateRule { clock, ..rule.clone() },
                None => rule.clone(),
            };
            let rule = serde_json::to_string(&rule).unwrap_or_default();
            push(EvidenceRow::Rule { metric: name.clone(), rule });
        }
        state.checks += 1;
        let check = state.checks;
        if !has_new {
            push(EvidenceRow::Left { metric: name.clone(), check });
        }
        for (stratum, group) in state.new.drain(..) {
            push(EvidenceRow::Group { metric: name.clone(), check, group, stratum });
        }
        for trial in state.waiting.drain(..) {
            let WaitingTrial { ended, key, group, stratum, indicators, value } = trial;
            let row = TrialRow {
                metric: name.clone(),
                check,
                ended: Time(ended),
                key,
                group,
                alarm: judge.alarm_number(metric, rate, &stratum),
                stratum,
                indicators,
                value,
                block: state.blocks.pop_front().flatten(),
            };
            push(EvidenceRow::Trial(row));
        }
        if self.rows.len() >= MAX_ROWS { self.flush() } else { Ok(()) }
    }

    /// The rows written so far.
    pub(crate) fn head(&self) -> &ChainHead {
        &self.state.head
    }

    /// Passes the rows written so far to the sink.
    pub(crate) fn flush(&mut self) -> Result<(), Cancelled> {
        match self.rows.batch() {
            Some(batch) => (self.sink)(batch),
            None => Ok(()),
        }
    }

    /// Moves trials that have ended to the rates that count them. All rates of a layer count a trial at the first check
    /// of any of them.
    fn collect_ended(&mut self, rate: (usize, usize)) {
        let of_rate =
            |streams: &&TrialStreams| streams.rates.iter().any(|other| (other.metric, other.rate) == rate);
        for (streams, layer) in self.layers.iter().zip(&mut self.state.layers) {
            if !of_rate(&streams) {
                continue;
            }
            layer.is_ended.clear();
            for (instance, ended) in layer.ended.drain(..) {
                let key = key_of(&instance);
                let facts = layer.facts.remove(&key).unwrap_or_default();
                let adds = layer.adds.remove(&instance).unwrap_or_default();
                let indicators = object(&streams.facts, &facts);
                let (group, stratum) = sides(&instance, streams.groups);
                let key = self.hash.as_ref().map_or(key.clone(), |hash| hash.name(&key));
                for (rate, (numerator, denominator)) in streams.rates.iter().zip(adds) {
                    if denominator == 0.0 {
                        continue;
                    }
                    if let Some(rate) = self.state.rates.get_mut(&(rate.metric, rate.rate)) {
                        rate.waiting.push(WaitingTrial {
                            ended,
                            key: key.clone(),
                            group: group.clone(),
                            stratum: stratum.clone(),
                            indicators: indicators.clone(),
                            value: numerator,
                        });
                    }
                }
            }
        }
    }

    /// Replaces the state by another one.
    pub(crate) fn resume(&mut self, state: RecorderState) {
        self.state = state;
        self.rows = RowWriter::default();
    }
}

const MAX_ROWS: usize = 4096;

/// The first parameter of an instance, as text.
pub(crate) fn key_of(instance: &str) -> String {
    let values: Vec<serde_json::Value> = serde_json::from_str(instance).unwrap_or_default();
    let text = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    values.first().map(text).unwrap_or_default()
}

/// Group and stratum behind the key, each a JSON array.
fn sides(instance: &str, groups: usize) -> (String, String) {
    let values: Vec<serde_json::Value> = serde_json::from_str(instance).unwrap_or_default();
    let text = |values: &[serde_json::Value]| serde_json::Value::from(values.to_vec()).to_string();
    let values = values.get(1..).unwrap_or_default();
    let (group, stratum) = values.split_at(groups.min(values.len()));
    (text(group), text(stratum))
}

fn object(facts: &[(String, String)], holds: &BTreeSet<usize>) -> String {
    let pairs =
        facts.iter().enumerate().map(|(index, (name, _))| (name.clone(), holds.contains(&index).into()));
    serde_json::Value::Object(pairs.collect()).to_string()
}
