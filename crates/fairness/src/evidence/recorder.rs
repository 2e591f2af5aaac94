//! Takes trials down as they are counted. Hears what the trial layer says of each, and the bell of each rate.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use fairstream_core::{Closed, EngineError, Kind, Said, Time, Value};
use serde::{Deserialize, Serialize};

use super::replay::RateRule;
use super::rows::RowWriter;
use super::{EvidenceOutlet, EvidenceRow, KeyHash, TrialRow};
use crate::compile::TrialStreams;
use crate::{Compiled, Judge};

/// Takes down every trial when it is counted.
pub(crate) struct EvidenceRecorder {
    outlet: EvidenceOutlet,
    hash: Option<KeyHash>,
    layers: Vec<TrialStreams>,
    /// For each stream what it says, of which layer.
    signals: HashMap<usize, Vec<(usize, TrialSignal)>>,
    /// For each rate, by metric and rate: its name, and how it is judged.
    rate_rules: BTreeMap<(usize, usize), (String, String)>,
    state: RecorderState,
    rows: RowWriter,
}

/// What the value of a stream says of a trial.
#[derive(Clone, Copy, Debug)]
enum TrialSignal {
    Counted,
    /// That a fact holds, by its index.
    Fact(usize),
    Numerator(usize),
    Denominator(usize),
}

/// What is written down between two calls.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct RecorderState {
    layers: Vec<PendingTrials>,
    /// For each rate.
    rates: BTreeMap<(usize, usize), RateState>,
}

/// Trials that have not been counted.
#[derive(Debug, Default, Serialize, Deserialize)]
struct PendingTrials {
    /// By key: the facts that hold.
    facts: HashMap<String, BTreeSet<usize>>,
    /// Final, in the order in which they became so: by their parameters.
    ended: Vec<String>,
    is_ended: HashSet<String>,
    /// What they add, for each rate of the layer: numerator and denominator.
    adds: HashMap<String, Vec<(f64, f64)>>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct RateState {
    is_announced: bool,
    checks: u64,
    /// Strata and groups that have been met.
    groups: BTreeSet<(String, String)>,
    /// Of those, the ones since the last bell.
    new: Vec<(String, String)>,
    /// Counted, and not written: stratum, group, key, facts, value.
    waiting: Vec<(String, String, String, String, f64)>,
}

impl EvidenceRecorder {
    /// `find` knows the indices of streams.
    pub(crate) fn new(
        compiled: &Compiled,
        find: impl Fn(&str) -> Result<usize, EngineError>,
        outlet: EvidenceOutlet,
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
            let rate_rule =
                RateRule { rule: rule.clone(), rate: streams.rate, prior_varies: streams.prior.is_some() };
            let rate_rule = serde_json::to_string(&rate_rule).ok()?;
            Some(((streams.metric, streams.rate), (of_rate.stream.clone(), rate_rule)))
        });
        let rate_rules: BTreeMap<_, _> = rate_rules.collect();
        let state = RecorderState {
            layers: layers.iter().map(|_| PendingTrials::default()).collect(),
            rates: rate_rules.keys().map(|rate| (*rate, RateState::default())).collect(),
        };
        Ok(EvidenceRecorder { outlet, hash, layers, signals, rate_rules, state, rows: RowWriter::default() })
    }

    /// The streams that it listens to.
    pub(crate) fn streams(&self) -> impl Iterator<Item = usize> {
        self.signals.keys().copied()
    }

    /// Hears what is said of a trial, if it is.
    pub(crate) fn observe(&mut self, said: &Said<'_>) {
        let (Kind::Value, Some(instance)) = (said.kind, said.instance) else { return };
        let Some(signals) = self.signals.get(&said.stream) else { return };
        let mut label = String::new();
        instance.label(&mut label);
        let instance = label.as_str();
        for (layer, signal) in signals {
            let rates = self.layers[*layer].rates.len();
            let layer = &mut self.state.layers[*layer];
            let number = match said.value {
                Some(Value::UInt(number)) => number as f64,
                Some(Value::Float(number)) => number,
                _ => 0.0,
            };
            match *signal {
                TrialSignal::Fact(fact) => {
                    if said.value == Some(Value::Bool(true)) {
                        layer.facts.entry(key_of(instance)).or_default().insert(fact);
                    }
                }
                TrialSignal::Counted => {
                    // A clock may tick again before the trial is counted.
                    if layer.is_ended.insert(instance.to_owned()) {
                        layer.ended.push(instance.to_owned());
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

    /// Hears that a group of a rate is compared.
    pub(crate) fn register_group(&mut self, rate: (usize, usize), stratum: &str, group: &str) {
        if let Some(rate) = self.state.rates.get_mut(&rate) {
            let pair = (stratum.to_owned(), group.to_owned());
            if rate.groups.insert(pair.clone()) {
                rate.new.push(pair);
            }
        }
    }

    /// A rate is about to be judged: writes the trials that it has counted.
    pub(crate) fn check(
        &mut self,
        judge: &Judge,
        (metric, rate): (usize, usize),
        time: Time,
    ) -> Result<(), Closed> {
        self.collect_ended((metric, rate));
        let (Some((name, rule)), Some(state)) =
            (self.rate_rules.get(&(metric, rate)), self.state.rates.get_mut(&(metric, rate)))
        else {
            return Ok(());
        };
        if !state.is_announced {
            state.is_announced = true;
            self.rows.push(time, &EvidenceRow::Rule { metric: name.clone(), rule: rule.clone() });
        }
        state.checks += 1;
        let check = state.checks;
        for (stratum, group) in state.new.drain(..) {
            self.rows.push(time, &EvidenceRow::Group { metric: name.clone(), check, group, stratum });
        }
        // By stratum, as the judge goes through them; else in the order in which they ended.
        state.waiting.sort_by(|one, other| one.0.cmp(&other.0));
        for (stratum, group, key, indicators, value) in state.waiting.drain(..) {
            let placement = judge.placement(metric, rate, &stratum);
            let row = TrialRow {
                metric: name.clone(),
                check,
                key,
                group,
                stratum,
                indicators,
                value,
                block: placement.block,
                alarm: placement.alarm,
            };
            self.rows.push(time, &EvidenceRow::Trial(row));
        }
        if self.rows.len() >= MAX_ROWS { self.flush() } else { Ok(()) }
    }

    /// Hands on what has been written.
    pub(crate) fn flush(&mut self) -> Result<(), Closed> {
        match self.rows.batch() {
            Some(batch) => (self.outlet)(batch),
            None => Ok(()),
        }
    }

    /// Trials that have ended are counted at the first check of any rate of their layer, by all of them.
    fn collect_ended(&mut self, rate: (usize, usize)) {
        let of_rate =
            |streams: &&TrialStreams| streams.rates.iter().any(|other| (other.metric, other.rate) == rate);
        for (streams, layer) in self.layers.iter().zip(&mut self.state.layers) {
            if !of_rate(&streams) {
                continue;
            }
            layer.is_ended.clear();
            for instance in layer.ended.drain(..) {
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
                        let row =
                            (stratum.clone(), group.clone(), key.clone(), indicators.clone(), numerator);
                        rate.waiting.push(row);
                    }
                }
            }
        }
    }

    /// What it knows, as bytes.
    pub(crate) fn save(&self) -> Option<Vec<u8>> {
        postcard::to_stdvec(&self.state).ok()
    }

    /// The state that was saved, if it is of such a trail.
    pub(crate) fn decode(&self, bytes: Option<&[u8]>) -> Result<RecorderState, &'static str> {
        let bytes = bytes.ok_or("it was taken without evidence, and cannot be gone on from with it")?;
        let state: RecorderState =
            postcard::from_bytes(bytes).map_err(|_| "what it has of evidence cannot be read")?;
        let same = state.layers.len() == self.layers.len() && state.rates.keys().eq(self.rate_rules.keys());
        if same { Ok(state) } else { Err("what it has of evidence is of other metrics") }
    }

    /// Goes on from there.
    pub(crate) fn resume(&mut self, state: RecorderState) {
        self.state = state;
        self.rows = RowWriter::default();
    }
}

const MAX_ROWS: usize = 4096;

/// The first parameter of an instance, as text.
fn key_of(instance: &str) -> String {
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
