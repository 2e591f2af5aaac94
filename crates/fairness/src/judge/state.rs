//! The judge's state as it outlives the program: strata and the counts of groups as tables, everything else as JSON. The
//! names of fields, tables and columns are the format.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use fairstream_core::{
    StateCell, StateCellType, StateChange, StateError, StateReader, StateTableWriter, StateWriter,
    TableColumns, read_table,
};
use fairstream_guarantee::Family;
use serde::{Deserialize, Serialize};

use super::stratum_test::StratumTest;
use super::{AlarmBasis, Counts, Judge, RowCounts, Rule, Strata, Stratum};
use crate::{ChainHead, History};

/// What the judge remembers, but for what is in tables.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct JudgeDocument {
    /// The rules, by which the state is told to belong to them.
    rules: Vec<Rule>,
    families: Vec<GuaranteeDocument>,
    /// Number of alarms raised.
    alarms_raised: u64,
    rows: RowCounts,
    /// The rows of evidence so far, if evidence is recorded.
    recorded: Option<ChainHead>,
    has_history: bool,
}

/// How many hypotheses of a family have been rejected.
#[derive(Debug, Serialize, Deserialize)]
struct GuaranteeDocument {
    family: u64,
    #[serde(flatten)]
    state: Family,
}

/// What of a rate is carried over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RateCarryOver {
    Everything,
    /// The counts, but neither evidence nor alarms: they are of another hypothesis.
    Counts,
    Nothing,
}

/// What of each rate is carried over, by rule and rate, and what begins anew.
#[derive(Debug)]
pub(crate) struct CarriedRates {
    pub(crate) rates: Vec<Vec<RateCarryOver>>,
    pub(crate) changes: Vec<StateChange>,
}

const STRATA: &str = "judge/strata";
const STRATA_COLUMNS: TableColumns<'static> = &[
    ("rate", StateCellType::Text),
    ("stratum", StateCellType::Text),
    ("is_new", StateCellType::Bool),
    ("alarms_raised", StateCellType::UInt),
    ("alarm", StateCellType::Text),
    ("last_alarm_since", StateCellType::Time),
    ("last_alarm_until", StateCellType::Time),
    ("test", StateCellType::Text),
];
const GROUPS: &str = "judge/groups";
const GROUP_COLUMNS: TableColumns<'static> = &[
    ("rate", StateCellType::Text),
    ("stratum", StateCellType::Text),
    ("group", StateCellType::Text),
    ("numerator", StateCellType::Float),
    ("denominator", StateCellType::UInt),
    ("pending", StateCellType::UInt),
    ("unknown", StateCellType::UInt),
    ("prior", StateCellType::Float),
    ("is_new", StateCellType::Bool),
];

fn damaged(reason: impl Into<String>) -> StateError {
    StateError::Damaged(reason.into())
}

fn text<T: Serialize>(value: &T) -> Result<String, StateError> {
    serde_json::to_string(value).map_err(|error| StateError::Io(error.to_string()))
}

/// A copy of a judge, to be written by another thread.
pub(crate) struct JudgeCopy(Judge);

impl Judge {
    /// Copies everything but a sweep, which covers a whole run.
    pub(crate) fn copy_state(&self) -> JudgeCopy {
        let Judge { rules, state, families, raised, rows, sweep: _, history, recorded } = self;
        JudgeCopy(Judge {
            rules: rules.clone(),
            state: state.clone(),
            families: families.clone(),
            raised: *raised,
            rows: rows.clone(),
            sweep: None,
            history: history.clone(),
            recorded: recorded.clone(),
        })
    }

    /// What can be carried over to these rules. `is_counted_anew` says of which rates, by rule and rate, the counts are not
    /// those that they were.
    pub(crate) fn compare_state(
        &self,
        document: &JudgeDocument,
        is_counted_anew: impl Fn(usize, usize) -> bool,
    ) -> CarriedRates {
        let before = &document.rules;
        let names = |rules: &[Rule]| -> BTreeSet<String> {
            rules.iter().flat_map(|rule| &rule.rates).map(|rate| rate.stream.clone()).collect()
        };
        let mut changes = Vec::new();
        let change =
            |name: &str, how: &str| StateChange { part: format!("metric `{name}`"), how: how.to_owned() };
        let mut rates = Vec::new();
        for (index, rule) in self.rules.iter().enumerate() {
            let mut of_rule = Vec::new();
            for (rate_index, rate) in rule.rates.iter().enumerate() {
                let was =
                    before.iter().find(|before| before.rates.iter().any(|one| one.stream == rate.stream));
                let difference = was.and_then(|was| {
                    let differs = difference(rule, was);
                    let members = |rules: &[Rule], of: &Rule| names(&family(rules, of));
                    let is_joint = rule.guarantee.is_some() || was.guarantee.is_some();
                    let moved = is_joint && members(&self.rules, rule) != members(before, was);
                    differs.or_else(|| moved.then(|| "shares its guarantee with other metrics".to_owned()))
                });
                let carried = match (was, difference) {
                    (None, _) => {
                        changes.push(change(&rate.stream, "is new"));
                        RateCarryOver::Nothing
                    }
                    (Some(was), difference)
                        if is_counted_anew(index, rate_index)
                            || (&was.groups, &was.strata) != (&rule.groups, &rule.strata) =>
                    {
                        let how = difference.unwrap_or_else(|| "is counted in another way".to_owned());
                        changes.push(change(
                            &rate.stream,
                            &format!("{how}: its counts and its evidence begin anew"),
                        ));
                        RateCarryOver::Nothing
                    }
                    (Some(_), Some(how)) => {
                        let begins = match rule.guarantee {
                            Some(_) => "its counts stay, and its evidence begins anew",
                            None => "its counts stay, and its alarms begin anew",
                        };
                        changes.push(change(&rate.stream, &format!("{how}: {begins}")));
                        RateCarryOver::Counts
                    }
                    (Some(_), None) => RateCarryOver::Everything,
                };
                of_rule.push(carried);
            }
            rates.push(of_rule);
        }
        let now = names(&self.rules);
        changes.extend(names(before).difference(&now).map(|name| change(name, "is gone")));
        CarriedRates { rates, changes }
    }

    /// A judge of the same rules with what is carried over.
    pub(crate) fn read_state(
        &self,
        document: &JudgeDocument,
        carried: &[Vec<RateCarryOver>],
        state: &dyn StateReader,
    ) -> Result<Judge, StateError> {
        let mut judge = Judge::new(self.rules.clone());
        let places: HashMap<&str, (usize, usize)> = self
            .rules
            .iter()
            .enumerate()
            .flat_map(|(rule, of)| {
                of.rates.iter().enumerate().map(move |(rate, of)| (of.stream.as_str(), (rule, rate)))
            })
            .collect();
        let place = |rate: &str| {
            let (rule, rate) = *places.get(rate)?;
            let carried = carried[rule][rate];
            (carried != RateCarryOver::Nothing).then_some((rule, rate, carried))
        };
        judge.read_strata(state, &place)?;
        judge.read_groups(state, &place)?;
        judge.read_families(document, carried)?;
        for (rule, rates) in judge.rules.iter().zip(&mut judge.state) {
            let family = judge.families.get(&rule.family).filter(|_| rule.guarantee.is_some());
            for strata in rates {
                strata.check_tests()?;
                strata.recompute(rule, family);
            }
        }
        (judge.raised, judge.rows) = (document.alarms_raised, document.rows.clone());
        judge.recorded.clone_from(&document.recorded);
        if self.history.is_some() {
            let is_unchanged = |rule: usize, rate: usize| carried[rule][rate] == RateCarryOver::Everything;
            let rate =
                |name: &str| places.get(name).copied().filter(|(rule, rate)| is_unchanged(*rule, *rate));
            judge.history =
                Some(if document.has_history { History::read(state, rate)? } else { History::default() });
        }
        Ok(judge)
    }

    fn read_strata(
        &mut self,
        state: &dyn StateReader,
        place: &impl Fn(&str) -> Option<(usize, usize, RateCarryOver)>,
    ) -> Result<(), StateError> {
        let rows = read_table(state, STRATA, STRATA_COLUMNS, |cells| {
            let [
                StateCell::Text(rate),
                StateCell::Text(name),
                StateCell::Bool(is_new),
                StateCell::UInt(raised),
                alarm,
                since,
                until,
                test,
            ] = cells
            else {
                return Err(damaged(format!("a row of `{STRATA}` lacks a value")));
            };
            let Some((rule, rate, carried)) = place(rate) else { return Ok(()) };
            let Strata { items, .. } = &mut self.state[rule][rate];
            let index = items.index_or_insert(name, Stratum::default);
            if index + 1 != items.len() {
                return Err(damaged(format!("`{STRATA}` has a stratum twice")));
            }
            let Some((_, stratum)) = items.get_mut(index) else { return Ok(()) };
            if carried == RateCarryOver::Counts {
                stratum.is_new = true;
                return Ok(());
            }
            let unreadable = |error: serde_json::Error| damaged(format!("`{STRATA}`: {error}"));
            let parsed = |cell: &StateCell<'_>| match cell {
                StateCell::Text(text) => serde_json::from_str::<AlarmBasis>(text).map(Some),
                _ => Ok(None),
            };
            (stratum.is_new, stratum.raised) = (*is_new, *raised);
            stratum.alarm = parsed(alarm).map_err(unreadable)?;
            if let (StateCell::Time(since), StateCell::Time(until)) = (since, until) {
                stratum.last_alarm = Some((*since, *until));
            }
            if let StateCell::Text(text) = test {
                stratum.test = Some(serde_json::from_str::<StratumTest>(text).map_err(unreadable)?);
            }
            Ok(())
        })?;
        rows.map(drop).ok_or_else(|| damaged(format!("there is no table `{STRATA}`")))
    }

    fn read_groups(
        &mut self,
        state: &dyn StateReader,
        place: &impl Fn(&str) -> Option<(usize, usize, RateCarryOver)>,
    ) -> Result<(), StateError> {
        let rows = read_table(state, GROUPS, GROUP_COLUMNS, |cells| {
            let [
                StateCell::Text(rate),
                StateCell::Text(stratum),
                StateCell::Text(group),
                StateCell::Float(numerator),
                StateCell::UInt(denominator),
                StateCell::UInt(pending),
                StateCell::UInt(unknown),
                prior,
                StateCell::Bool(is_new),
            ] = cells
            else {
                return Err(damaged(format!("a row of `{GROUPS}` lacks a value")));
            };
            let Some((rule, rate, carried)) = place(rate) else { return Ok(()) };
            let items = &mut self.state[rule][rate].items;
            let found = items.index_of(stratum).and_then(|index| items.get_mut(index));
            let Some((_, stratum)) = found else {
                return Err(damaged(format!("`{GROUPS}` has a stratum that there is not")));
            };
            /// Sums of so many trials neither overflow nor lose a trial.
            const MOST: u64 = 1 << 52;
            if [denominator, pending, unknown].into_iter().any(|count| *count > MOST) || numerator.is_nan() {
                return Err(damaged(format!("`{GROUPS}` has a count that there cannot be")));
            }
            let prior = if let StateCell::Float(prior) = prior { Some(*prior) } else { None };
            let counts = Counts {
                numerator: *numerator,
                denominator: *denominator,
                pending: *pending,
                unknown: *unknown,
                prior,
            };
            let index = stratum.groups.index_or_insert(group, || counts);
            if index + 1 != stratum.groups.len() {
                return Err(damaged(format!("`{GROUPS}` has a group twice")));
            }
            if *is_new || carried == RateCarryOver::Counts {
                stratum.changed.insert(index);
            }
            Ok(())
        })?;
        rows.map(drop).ok_or_else(|| damaged(format!("there is no table `{GROUPS}`")))
    }

    /// A family goes on if all of its rates do.
    fn read_families(
        &mut self,
        document: &JudgeDocument,
        carried: &[Vec<RateCarryOver>],
    ) -> Result<(), StateError> {
        for (rule, carried) in self.rules.iter().zip(carried) {
            if carried.iter().any(|carried| *carried != RateCarryOver::Everything) {
                continue;
            }
            let (Some(new), Some(rate)) = (rule.new_family(), rule.rates.first()) else { continue };
            let is_it = |before: &&Rule| before.rates.iter().any(|one| one.stream == rate.stream);
            let before = document.rules.iter().find(is_it);
            let state =
                before.and_then(|before| document.families.iter().find(|of| of.family == before.family));
            let state = state.ok_or_else(|| damaged("a guarantee lacks its state"))?.state;
            if !state.continues(&new) {
                return Err(damaged("a guarantee has a state that it cannot have"));
            }
            self.families.insert(rule.family, state);
        }
        Ok(())
    }
}

/// The rules that share a guarantee with one.
fn family(rules: &[Rule], of: &Rule) -> Vec<Rule> {
    rules.iter().filter(|rule| rule.family == of.family && rule.guarantee.is_some()).cloned().collect()
}

/// What of a rule, but for words, differs from what it was.
fn difference(rule: &Rule, was: &Rule) -> Option<String> {
    let has = |what: &str| Some(format!("has {what}"));
    let rates = |rule: &Rule| -> Vec<(String, bool)> {
        rule.rates.iter().map(|rate| (rate.stream.clone(), rate.is_mean)).collect()
    };
    match (rule, was) {
        _ if rule.groups != was.groups => has("other groups"),
        _ if rule.strata != was.strata => has("other strata"),
        _ if rule.comparison != was.comparison => has("another comparison"),
        _ if rule.reference != was.reference => has("another reference group"),
        _ if rule.tolerance != was.tolerance || rule.clear != was.clear => has("another tolerance"),
        _ if rule.guarantee != was.guarantee => has("another guarantee"),
        _ if rule.comparisons != was.comparisons => has("another share of its guarantee"),
        _ if rule.min_trials != was.min_trials => has("another number of trials that a group needs"),
        _ if rule.prior != was.prior || rule.confidence != was.confidence => has("another prior"),
        _ if rule.range != was.range => has("another range"),
        _ if rule.has_horizon != was.has_horizon || rule.by_rows != was.by_rows => has("another horizon"),
        _ if rates(rule) != rates(was) => has("other rates"),
        _ => None,
    }
}

impl Strata {
    /// Whether the tests that were read can be of these groups, and the ranks of strata differ.
    fn check_tests(&mut self) -> Result<(), StateError> {
        let mut ranks = BTreeSet::new();
        for index in 0..self.items.len() {
            let Some((_, Stratum { test: Some(test), groups, .. })) = self.items.get_mut(index) else {
                continue;
            };
            if !test.is_valid(groups.len()) || !ranks.insert(test.rank()) {
                return Err(damaged(format!("`{STRATA}` has a test that there cannot be")));
            }
            test.number_groups();
        }
        // Ranks count the strata with a test.
        match ranks.last() {
            Some(last) if *last != ranks.len() as u64 - 1 => {
                Err(damaged(format!("`{STRATA}` lacks a stratum with a test")))
            }
            _ => Ok(()),
        }
    }
}

impl JudgeCopy {
    /// Writes the tables, and gives what is not in them.
    pub(crate) fn write(&self, to: &mut dyn StateWriter) -> Result<JudgeDocument, StateError> {
        let JudgeCopy(judge) = self;
        let mut strata_rows = StateTableWriter::new(STRATA, STRATA_COLUMNS);
        let mut group_rows = StateTableWriter::new(GROUPS, GROUP_COLUMNS);
        for (rule, rates) in judge.rules.iter().zip(&judge.state) {
            for (rate, strata) in rule.rates.iter().zip(rates) {
                let rate = StateCell::Text(&rate.stream);
                for (name, stratum) in strata.items.in_order_of_insertion() {
                    let alarm = stratum.alarm.as_ref().map(text).transpose()?;
                    let test = stratum.test.as_ref().map(text).transpose()?;
                    let (since, until) = match stratum.last_alarm {
                        Some((since, until)) => (StateCell::Time(since), StateCell::Time(until)),
                        None => (StateCell::Absent, StateCell::Absent),
                    };
                    let row = [
                        rate,
                        StateCell::Text(name),
                        StateCell::Bool(stratum.is_new),
                        StateCell::UInt(stratum.raised),
                        alarm.as_deref().map_or(StateCell::Absent, StateCell::Text),
                        since,
                        until,
                        test.as_deref().map_or(StateCell::Absent, StateCell::Text),
                    ];
                    strata_rows.row(&row, to)?;
                    for (index, (group, counts)) in stratum.groups.in_order_of_insertion().enumerate() {
                        let row = [
                            rate,
                            StateCell::Text(name),
                            StateCell::Text(group),
                            StateCell::Float(counts.numerator),
                            StateCell::UInt(counts.denominator),
                            StateCell::UInt(counts.pending),
                            StateCell::UInt(counts.unknown),
                            counts.prior.map_or(StateCell::Absent, StateCell::Float),
                            StateCell::Bool(stratum.changed.contains(index)),
                        ];
                        group_rows.row(&row, to)?;
                    }
                }
            }
        }
        strata_rows.finish(to)?;
        group_rows.finish(to)?;
        if let Some(history) = &judge.history {
            let name = |rule: usize, rate: usize| {
                let rule = judge.rules.get(rule)?;
                rule.rates.get(rate).map(|rate| rate.stream.as_str())
            };
            history.write(to, name)?;
        }
        let families: BTreeMap<u64, Family> = judge.families.clone();
        Ok(JudgeDocument {
            rules: judge.rules.clone(),
            families: families
                .into_iter()
                .map(|(family, state)| GuaranteeDocument { family, state })
                .collect(),
            alarms_raised: judge.raised,
            rows: judge.rows.clone(),
            recorded: judge.recorded.clone(),
            has_history: judge.history.is_some(),
        })
    }
}
