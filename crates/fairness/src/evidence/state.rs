//! What the recorder remembers, as it outlives the program: trials that have not been written as tables, everything else as
//! JSON. The names of fields, tables and columns are the format.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use fairstream_core::{
    StateCell, StateCellType, StateError, StateReader, StateTableWriter, StateWriter, TableColumns,
    read_table,
};
use serde::{Deserialize, Serialize};

use super::ChainHead;
use super::recorder::{EvidenceRecorder, PendingTrials, RateState, RecorderState, WaitingTrial};
use crate::compile::TrialStreams;

impl EvidenceRecorder {
    /// A copy of what it remembers, to be written by another thread.
    pub(crate) fn copy_state(&self) -> RecorderCopy {
        RecorderCopy {
            state: self.state.clone(),
            layers: self.layers.clone(),
            names: self.rate_rules.iter().map(|(rate, (name, _))| (*rate, name.clone())).collect(),
        }
    }

    /// What a recorder of the same metrics remembered. `is_unchanged` says of a stream, and `is_carried_over` of a rate by
    /// metric and rate, whether what was recorded of it is continued; the chain of hashes always is.
    pub(crate) fn read_state(
        &self,
        document: &RecorderDocument,
        state: &dyn StateReader,
        is_unchanged: impl Fn(&str) -> bool,
        is_carried_over: impl Fn((usize, usize)) -> bool,
    ) -> Result<RecorderState, StateError> {
        let places: HashMap<&str, (usize, usize)> =
            self.rate_rules.iter().map(|(rate, (name, _))| (name.as_str(), *rate)).collect();
        let rate_of = |name: &str| places.get(name).copied().filter(|rate| is_carried_over(*rate));
        let layer_of = |name: &str| {
            let layer = self.layers.iter().position(|layer| layer.counted == name)?;
            is_unchanged(name).then_some(layer)
        };
        let mut read = RecorderState {
            layers: self.layers.iter().map(|_| PendingTrials::default()).collect(),
            rates: self.rate_rules.keys().map(|rate| (*rate, RateState::default())).collect(),
            head: document.head.clone(),
            clock: document.clock,
        };
        for RateDocument { rate, is_announced, checks, has_left } in &document.rates {
            if let Some(state) = rate_of(rate).and_then(|rate| read.rates.get_mut(&rate)) {
                if *checks > 1 << 48 {
                    return Err(lacks("evidence"));
                }
                (state.is_announced, state.checks) = (*is_announced, *checks);
                state.has_left = *has_left;
            }
        }
        read_table(state, FACTS, FACT_COLUMNS, |cells| {
            let [StateCell::Text(layer), StateCell::Text(key), StateCell::Text(fact)] = cells else {
                return Err(lacks(FACTS));
            };
            let Some(layer) = layer_of(layer) else { return Ok(()) };
            let fact = self.layers[layer].facts.iter().position(|(_, stream)| stream == fact);
            if let Some(fact) = fact {
                read.layers[layer].facts.entry((*key).to_owned()).or_default().insert(fact);
            }
            Ok(())
        })?;
        read_table(state, TRIALS, TRIAL_COLUMNS, |cells| {
            let [StateCell::Text(layer), StateCell::Text(trial), ended, adds] = cells else {
                return Err(lacks(TRIALS));
            };
            let Some(layer) = layer_of(layer) else { return Ok(()) };
            let (rates, layer) = (self.layers[layer].rates.len(), &mut read.layers[layer]);
            if let StateCell::Time(ended) = ended {
                if !layer.is_ended.insert((*trial).to_owned()) {
                    return Err(StateError::Damaged(format!("`{TRIALS}` has a trial twice")));
                }
                layer.ended.push(((*trial).to_owned(), *ended));
            }
            if let StateCell::Text(adds) = adds {
                let adds: Vec<(f64, f64)> = serde_json::from_str(adds).map_err(|_| lacks(TRIALS))?;
                if adds.len() != rates {
                    return Err(lacks(TRIALS));
                }
                layer.adds.insert((*trial).to_owned(), adds);
            }
            Ok(())
        })?;
        read_table(state, RECORDED_GROUPS, RECORDED_GROUP_COLUMNS, |cells| {
            let [
                StateCell::Text(rate),
                StateCell::Text(stratum),
                StateCell::Text(group),
                StateCell::Bool(is_new),
            ] = cells
            else {
                return Err(lacks(RECORDED_GROUPS));
            };
            let Some(state) = rate_of(rate).and_then(|rate| read.rates.get_mut(&rate)) else { return Ok(()) };
            let pair = ((*stratum).to_owned(), (*group).to_owned());
            if *is_new {
                state.new.push(pair.clone());
            }
            state.groups.insert(pair);
            Ok(())
        })?;
        read_table(state, WAITING, WAITING_COLUMNS, |cells| {
            let [
                StateCell::Text(rate),
                StateCell::Time(ended),
                StateCell::Text(key),
                StateCell::Text(group),
                StateCell::Text(stratum),
                StateCell::Text(indicators),
                StateCell::Float(value),
            ] = cells
            else {
                return Err(lacks(WAITING));
            };
            let Some(state) = rate_of(rate).and_then(|rate| read.rates.get_mut(&rate)) else { return Ok(()) };
            let [key, group, stratum, indicators] =
                [key, group, stratum, indicators].map(|text| (*text).to_owned());
            state.waiting.push(WaitingTrial {
                ended: *ended,
                key,
                group,
                stratum,
                indicators,
                value: *value,
            });
            Ok(())
        })?;
        read_table(state, BLOCKS, BLOCK_COLUMNS, |cells| {
            let [StateCell::Text(rate), block] = cells else { return Err(lacks(BLOCKS)) };
            let Some(state) = rate_of(rate).and_then(|rate| read.rates.get_mut(&rate)) else { return Ok(()) };
            state.blocks.push_back(if let StateCell::UInt(block) = block { Some(*block) } else { None });
            Ok(())
        })?;
        Ok(read)
    }
}

fn lacks(table: &str) -> StateError {
    StateError::Damaged(format!("a row of `{table}` lacks a value"))
}

/// What the recorder remembers, but for what is in tables.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RecorderDocument {
    /// The rows written so far.
    head: ChainHead,
    /// When the clock began, in nanoseconds since 1970.
    clock: i64,
    rates: Vec<RateDocument>,
}

/// What was recorded of a rate, by the name of its alarms.
#[derive(Debug, Serialize, Deserialize)]
struct RateDocument {
    rate: String,
    is_announced: bool,
    checks: u64,
    /// Whether trials have left the window since the last check.
    has_left: bool,
}

/// A copy of what a recorder remembers.
pub(crate) struct RecorderCopy {
    state: RecorderState,
    layers: Vec<TrialStreams>,
    /// The names of the alarms of each rate, by metric and rate.
    names: BTreeMap<(usize, usize), String>,
}

/// Layers are named by the stream that says when a trial is final, facts by theirs.
const FACTS: &str = "judge/evidence/facts";
const FACT_COLUMNS: TableColumns<'static> =
    &[("layer", StateCellType::Text), ("key", StateCellType::Text), ("fact", StateCellType::Text)];
const TRIALS: &str = "judge/evidence/trials";
const TRIAL_COLUMNS: TableColumns<'static> = &[
    ("layer", StateCellType::Text),
    ("trial", StateCellType::Text),
    ("ended", StateCellType::Time),
    ("adds", StateCellType::Text),
];
const RECORDED_GROUPS: &str = "judge/evidence/groups";
const RECORDED_GROUP_COLUMNS: TableColumns<'static> = &[
    ("rate", StateCellType::Text),
    ("stratum", StateCellType::Text),
    ("group", StateCellType::Text),
    ("is_new", StateCellType::Bool),
];
const WAITING: &str = "judge/evidence/waiting";
const WAITING_COLUMNS: TableColumns<'static> = &[
    ("rate", StateCellType::Text),
    ("ended", StateCellType::Time),
    ("key", StateCellType::Text),
    ("group", StateCellType::Text),
    ("stratum", StateCellType::Text),
    ("indicators", StateCellType::Text),
    ("value", StateCellType::Float),
];
const BLOCKS: &str = "judge/evidence/blocks";
const BLOCK_COLUMNS: TableColumns<'static> = &[("rate", StateCellType::Text), ("block", StateCellType::UInt)];

impl RecorderCopy {
    /// Writes the tables, and gives what is not in them.
    pub(crate) fn write(&self, to: &mut dyn StateWriter) -> Result<RecorderDocument, StateError> {
        let mut facts = StateTableWriter::new(FACTS, FACT_COLUMNS);
        let mut trials = StateTableWriter::new(TRIALS, TRIAL_COLUMNS);
        for (streams, layer) in self.layers.iter().zip(&self.state.layers) {
            let name = StateCell::Text(&streams.counted);
            let mut keys: Vec<(&String, &BTreeSet<usize>)> = layer.facts.iter().collect();
            keys.sort_unstable();
            for (key, holds) in keys {
                for (_, stream) in holds.iter().filter_map(|fact| streams.facts.get(*fact)) {
                    facts.row(&[name, StateCell::Text(key), StateCell::Text(stream)], to)?;
                }
            }
            let adds = |trial: &String| layer.adds.get(trial).map(serde_json::to_string).transpose();
            let not_ended = layer.adds.keys().filter(|trial| !layer.is_ended.contains(*trial));
            let mut not_ended: Vec<&String> = not_ended.collect();
            not_ended.sort_unstable();
            let ended = layer.ended.iter().map(|(trial, ended)| (trial, StateCell::Time(*ended)));
            for (trial, ended) in ended.chain(not_ended.into_iter().map(|trial| (trial, StateCell::Absent))) {
                let adds = adds(trial).map_err(|error| StateError::Io(error.to_string()))?;
                let adds = adds.as_deref().map_or(StateCell::Absent, StateCell::Text);
                trials.row(&[name, StateCell::Text(trial), ended, adds], to)?;
            }
        }
        let mut groups = StateTableWriter::new(RECORDED_GROUPS, RECORDED_GROUP_COLUMNS);
        let mut waiting = StateTableWriter::new(WAITING, WAITING_COLUMNS);
        let mut blocks = StateTableWriter::new(BLOCKS, BLOCK_COLUMNS);
        let mut rates = Vec::new();
        for (rate, state) in &self.state.rates {
            let Some(rate) = self.names.get(rate) else { continue };
            let name = StateCell::Text(rate);
            // In the order in which they were registered, as far as that is to be known.
            let new: HashSet<&(String, String)> = state.new.iter().collect();
            let old = state.groups.iter().filter(|pair| !new.contains(pair)).map(|pair| (pair, false));
            for ((stratum, group), is_new) in state.new.iter().map(|pair| (pair, true)).chain(old) {
                let row = [name, StateCell::Text(stratum), StateCell::Text(group), StateCell::Bool(is_new)];
                groups.row(&row, to)?;
            }
            for WaitingTrial { ended, key, group, stratum, indicators, value } in &state.waiting {
                let row = [
                    name,
                    StateCell::Time(*ended),
                    StateCell::Text(key),
                    StateCell::Text(group),
                    StateCell::Text(stratum),
                    StateCell::Text(indicators),
                    StateCell::Float(*value),
                ];
                waiting.row(&row, to)?;
            }
            for block in &state.blocks {
                blocks.row(&[name, block.map_or(StateCell::Absent, StateCell::UInt)], to)?;
            }
            rates.push(RateDocument {
                rate: rate.clone(),
                is_announced: state.is_announced,
                checks: state.checks,
                has_left: state.has_left,
            });
        }
        facts.finish(to)?;
        trials.finish(to)?;
        groups.finish(to)?;
        waiting.finish(to)?;
        blocks.finish(to)?;
        Ok(RecorderDocument { head: self.state.head.clone(), clock: self.state.clock, rates })
    }
}
