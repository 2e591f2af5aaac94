//! The judge: counts → estimates, alarms raised and cleared. Knows nothing of streams. Its state can be
//! written and read back.

mod alarm;
mod alarm_details;
mod changed_groups;
mod distinct_counts;
mod gap;
mod impact;
mod named_vec;
mod row_counts;
mod rule;
mod standing;
mod state;
mod stratum_test;
mod value_order;
pub(crate) mod words;

use std::collections::BTreeMap;

use fairstream_core::Time;
use fairstream_guarantee::{Contenders, Family, log_average};

pub use alarm::{AlarmBasis, AlarmedGroup};
pub use alarm_details::{AlarmDetails, EvidenceNumbers, by_column};
pub(crate) use gap::{Gap, GroupEstimate};
pub use impact::ImpactRatio;
pub(crate) use named_vec::NamedVec;
pub use row_counts::{RowCounts, SeenColumn};
pub(crate) use rule::Estimator;
pub use rule::{Counts, Rule, RuleRate, when};
pub use standing::{GroupStanding, Standing, StandingOutline};
pub(crate) use state::{CarriedRates, JudgeCopy, JudgeDocument, RateCarryOver};
pub use stratum_test::Assessment;
pub(crate) use value_order::ValuesKey;
pub use value_order::compare_values;
pub use words::{significant, significant_exp};

use self::changed_groups::ChangedGroups;
use self::distinct_counts::DistinctCounts;
use self::stratum_test::{AlarmTransition, StratumTest};
use crate::sweep::SweptRun;
use crate::{ChainHead, History};

/// An alarm that a check raised or cleared.
#[derive(Clone, Debug, PartialEq)]
pub struct AlarmChange {
    /// Index of the rate within the rule that was checked.
    pub rate: usize,
    /// The stratum as a JSON array of its values; empty if there are no strata.
    pub stratum: String,
    /// `true` if the alarm was raised, `false` if it was cleared.
    pub raised: bool,
    /// The gap, ratio or highest rate: with a guarantee, that of the groups that the alarm is about.
    pub gap: f64,
    /// The message.
    pub message: String,
    /// What the alarm that is raised rests on; or what the alarm that is cleared rested on when it was raised.
    pub basis: AlarmBasis,
}

/// Decides from counts alone whether groups are treated differently.
#[derive(Clone, Debug)]
pub struct Judge {
    rules: Vec<Rule>,
    /// State of each rate, by rule and rate.
    state: Vec<Vec<Strata>>,
    /// The hypotheses that share a guarantee, by the [number](Rule::family) of their rules.
    families: BTreeMap<u64, Family>,
    raised: u64,
    rows: RowCounts,
    /// Sweep over other confidences and tolerances, fed with the same counts.
    sweep: Option<SweptRun>,
    /// Estimates and alarms over time, if they are kept.
    history: Option<History>,
    /// The rows of evidence so far, if evidence is recorded.
    recorded: Option<ChainHead>,
}

/// The strata of a rate, named by a JSON array of their values.
#[derive(Clone, Debug, Default)]
struct Strata {
    items: NamedVec<Stratum>,
    /// Strata whose counts have changed since the last check.
    new: Vec<usize>,
    /// Number of strata with a test.
    tested: u64,
    /// Strata whose evidence may be enough for an alarm, by their indices.
    contenders: Contenders,
    /// A buffer for the groups of a stratum that have changed.
    changed: Vec<usize>,
}

/// Indices of the counts of a group. Looking them up by slot avoids searching by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GroupSlot {
    rule: usize,
    rate: usize,
    stratum: usize,
    group: usize,
}

impl GroupSlot {
    /// Indices of the rule and of the rate.
    pub(crate) fn rate(&self) -> (usize, usize) {
        (self.rule, self.rate)
    }
}

/// The groups of a stratum, and the state of its alarm.
#[derive(Clone, Debug, Default, PartialEq)]
struct Stratum {
    /// Counts of each group, named by a JSON array of its values.
    groups: NamedVec<Counts>,
    /// Whether counts have changed since the last check.
    is_new: bool,
    /// The groups whose counts have changed since the last check.
    changed: ChangedGroups,
    /// The distinct counts of many groups, as of the last check.
    distinct: DistinctCounts,
    /// The active alarm.
    alarm: Option<AlarmBasis>,
    /// When the last alarm that was cleared was raised and cleared, in nanoseconds since 1970.
    last_alarm: Option<(i64, i64)>,
    /// Number of alarms raised so far.
    raised: u64,
    /// The sequential test, if there is a guarantee. Created with the first trial.
    test: Option<StratumTest>,
}

/// The evidence that any stratum is unfair: the average of the e-values, by their shares. Where an alarm is raised for a
/// stratum before any other, this exceeds its threshold as well, so that it takes no share of the guarantee.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StrataAssessment {
    /// Number of strata that are tested.
    pub strata: u64,
    /// Natural logarithm of the average.
    pub log_e_value: f64,
    /// Natural logarithm of what it takes to say that at least one stratum is unfair.
    pub log_threshold: f64,
}

impl StrataAssessment {
    /// Whether there is enough evidence that at least one stratum is unfair.
    pub fn is_any_unfair(&self) -> bool {
        self.log_e_value > self.log_threshold
    }
}

impl Judge {
    /// A judge without any counts.
    pub fn new(rules: Vec<Rule>) -> Judge {
        let state = rules.iter().map(|rule| vec![Strata::default(); rule.rates.len()]).collect();
        let families = rules.iter().filter_map(|rule| Some((rule.family, rule.new_family()?))).collect();
        Judge {
            rules,
            state,
            families,
            raised: 0,
            rows: RowCounts::default(),
            sweep: None,
            history: None,
            recorded: None,
        }
    }

    /// Feeds every check to a run of a sweep over the same rules. A sweep covers a whole run, so it is not part of the state
    /// that outlives the program.
    #[must_use]
    pub fn with_sweep(mut self, sweep: SweptRun) -> Judge {
        self.sweep = Some(sweep);
        self
    }

    /// Whether there is a sweep, which counts checks.
    pub(crate) fn has_sweep(&self) -> bool {
        self.sweep.is_some()
    }

    /// Takes the run of the sweep out, if there is one.
    pub fn end_sweep(&mut self) -> Option<SweptRun> {
        self.sweep.take()
    }

    /// Keeps a history of estimates and alarms.
    #[must_use]
    pub fn with_history(mut self) -> Judge {
        self.history = Some(History::default());
        self
    }

    /// Estimates and alarms over time, if a history is kept.
    pub fn history(&self) -> Option<&History> {
        self.history.as_ref()
    }

    /// The rules.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Whether times are numbers of rows, in seconds, as the data has no times.
    pub fn by_rows(&self) -> bool {
        self.rules.first().is_some_and(|rule| rule.by_rows)
    }

    /// Number of alarms raised so far, over all rates and strata.
    pub fn raised(&self) -> u64 {
        self.raised
    }

    /// The rows of evidence so far, if evidence is recorded.
    pub fn recorded(&self) -> Option<&ChainHead> {
        self.recorded.as_ref()
    }

    pub(crate) fn set_recorded(&mut self, head: &ChainHead) {
        self.recorded = Some(head.clone());
    }

    /// The rows that were monitored.
    pub fn rows(&self) -> &RowCounts {
        &self.rows
    }

    /// Number of rows that repeat the key of an earlier row and are therefore no trials, where a trial is one row; `None`
    /// if it is not known.
    pub fn repeated_keys(&self) -> Option<u64> {
        // Trials that have left a window are not counted any more.
        if self.rules.first()?.window.is_some() {
            return None;
        }
        if !self.rows.are_trials || self.rows.not_compared > 0 && self.rows.groups.len() > 1 {
            return None;
        }
        let groups = self.state.first()?.first()?.items.values().flat_map(|stratum| stratum.groups.values());
        let counted: u64 = groups.map(|counts| counts.denominator + counts.unknown).sum();
        Some(self.rows.complete.saturating_sub(counted))
    }

    pub(crate) fn rows_mut(&mut self) -> &mut RowCounts {
        &mut self.rows
    }

    /// Whether any group has been counted, even without a trial that counts for a rate.
    pub fn has_groups(&self) -> bool {
        let strata = self.state.iter().flatten().flat_map(|strata| strata.items.unordered());
        strata.into_iter().any(|stratum| stratum.groups.len() > 0)
    }

    /// Mutable access to the counts of a group. The next check of the rate uses them. Groups and strata are JSON arrays
    /// of their values.
    pub fn counts(&mut self, rule: usize, rate: usize, stratum: &str, group: &str) -> Option<&mut Counts> {
        let slot = self.slot(rule, rate, stratum, group)?;
        self.counts_mut(slot)
    }

    /// The slot of a group, which is created if necessary and never changes.
    pub(crate) fn slot(&mut self, rule: usize, rate: usize, stratum: &str, group: &str) -> Option<GroupSlot> {
        let strata = self.state.get_mut(rule)?.get_mut(rate)?;
        let stratum = strata.items.index_or_insert(stratum, Stratum::default);
        let group = strata.items.get_mut(stratum)?.1.groups.index_or_insert(group, Counts::default);
        Some(GroupSlot { rule, rate, stratum, group })
    }

    /// Mutable access to the counts of a group. Marks its stratum for the next check.
    pub(crate) fn counts_mut(&mut self, slot: GroupSlot) -> Option<&mut Counts> {
        let Strata { items, new, .. } = self.state.get_mut(slot.rule)?.get_mut(slot.rate)?;
        let (_, stratum) = items.get_mut(slot.stratum)?;
        if !std::mem::replace(&mut stratum.is_new, true) {
            new.push(slot.stratum);
        }
        stratum.changed.insert(slot.group);
        stratum.groups.get_mut(slot.group).map(|(_, counts)| counts)
    }

    /// Counts a trial of a group that is final since `time`, no earlier than the trial before, for the test of its
    /// stratum; the [counts](Judge::counts) are told apart. Returns the number of its block; `None` without a guarantee,
    /// or if the guarantee is for fewer strata.
    pub(crate) fn count_trial(&mut self, slot: GroupSlot, value: f64, time: Time) -> Option<u64> {
        let rule = self.rules.get(slot.rule)?;
        rule.guarantee?;
        let Strata { items, tested, .. } = self.state.get_mut(slot.rule)?.get_mut(slot.rate)?;
        let (_, stratum) = items.get_mut(slot.stratum)?;
        let test = stratum.test.get_or_insert_with(|| {
            *tested += 1;
            StratumTest::new(*tested - 1)
        });
        test.count(rule, &stratum.groups, slot.group, value, time)
    }

    /// The counts of a group.
    pub(crate) fn counts_at(&self, slot: GroupSlot) -> Counts {
        let strata = self.state.get(slot.rule).and_then(|rates| rates.get(slot.rate));
        let stratum = strata.and_then(|strata| strata.items.get(slot.stratum));
        let counts = stratum.and_then(|(_, stratum)| stratum.groups.get(slot.group));
        counts.map(|(_, counts)| *counts).unwrap_or_default()
    }

    /// The strata of a rate whose counts have changed since the last check, in their order.
    pub fn strata_to_check(&self, rule: usize, rate: usize) -> impl Iterator<Item = &str> {
        let strata = self.state.get(rule).and_then(|rates| rates.get(rate));
        strata.into_iter().flat_map(|strata| {
            let mut new = strata.new.clone();
            strata.items.sort(&mut new);
            new.into_iter().filter_map(|index| strata.items.get(index)).map(|(name, _)| name)
        })
    }

    /// Checks one rate of a rule at a time, and returns the alarms that are raised or cleared.
    pub fn check(&mut self, rule: usize, rate: usize, time: Time) -> Vec<AlarmChange> {
        let Judge { rules, state, families, raised, sweep, history, recorded, .. } = self;
        let Some((of_rule, strata)) = rules.get(rule).zip(state.get_mut(rule)) else { return Vec::new() };
        let Some((of_rate, strata)) = of_rule.rates.get(rate).zip(strata.get_mut(rate)) else {
            return Vec::new();
        };
        let mut changes = RateChanges {
            index: (rule, rate),
            rule: of_rule,
            rate: of_rate,
            time,
            raised,
            history,
            recorded: recorded.as_ref(),
            changes: Vec::new(),
        };
        let Strata { items, new, changed, contenders, .. } = strata;
        items.sort(new);
        if let Some(sweep) = sweep {
            let changed = new.iter().filter_map(|stratum| items.get(*stratum));
            sweep.check(rule, rate, changed.map(|(name, stratum)| (name, &stratum.groups)));
        }
        let mut family = families.get_mut(&of_rule.family);
        let mut is_new = false;
        for index in new.drain(..) {
            let Some((name, stratum)) = items.get_mut(index) else { continue };
            stratum.is_new = false;
            stratum.changed.move_to(changed);
            stratum.groups.sort(changed);
            changes.note_estimates(name, stratum, changed);
            let stands = stratum.alarm.is_some();
            let transition = match (of_rule.guarantee, &mut stratum.test) {
                (None, _) => of_rule.transition(stratum.gap_size(of_rule, of_rate, changed), stands),
                (Some(_), None) => continue,
                (Some(_), Some(test)) => {
                    if !test.look() {
                        continue;
                    }
                    match (&family, of_rule.share(test.rank())) {
                        (None, _) => test.detect(of_rule, &stratum.groups, stands),
                        (Some(family), Some(share)) if !stands => {
                            is_new = true;
                            family.compare(contenders, index, share, test.log_e_value());
                            continue;
                        }
                        (Some(_), _) => continue,
                    }
                }
            };
            match transition {
                AlarmTransition::Raise => changes.raise(name, stratum, None),
                AlarmTransition::Clear => changes.clear(name, stratum),
                AlarmTransition::Stay => {}
            }
        }
        if let Some(family) = &mut family
            && is_new
        {
            let mut rejected = family.reject(contenders);
            items.sort(&mut rejected);
            for index in rejected {
                let Some((name, stratum)) = items.get_mut(index) else { continue };
                changes.raise(name, stratum, Some(family));
            }
        }
        changes.changes
    }

    /// The number, from 1, of the alarm of a rate and stratum that a trial counts towards: the active one, or else the
    /// next; `None` if the active alarm is permanent.
    pub fn alarm_number(&self, rule: usize, rate: usize, stratum: &str) -> Option<u64> {
        let guarantee = self.rules.get(rule).and_then(|rule| rule.guarantee);
        let state = self.stratum(rule, rate, stratum);
        let stands = state.is_some_and(|stratum| stratum.alarm.is_some());
        let raised = state.map_or(0, |stratum| stratum.raised);
        let is_over = stands && guarantee.is_some_and(|of| of.promise.is_for_ever());
        (!is_over).then_some(if stands { raised } else { raised + 1 })
    }

    /// The evidence on a rate in a stratum; `None` without a guarantee, or before the first check.
    pub fn assess(&self, rule: usize, rate: usize, stratum: &str) -> Option<Assessment> {
        let state = self.stratum(rule, rate, stratum)?;
        let rule = self.rules.get(rule)?;
        let stands = state.alarm.is_some();
        Some(state.test.as_ref()?.assess(rule, &state.groups, self.family(rule), stands))
    }

    /// The evidence on a rate over all strata that are tested: whether any of them is unfair. `None` if fewer than two are,
    /// or without a guarantee for ever.
    pub fn assess_strata(&self, rule: usize, rate: usize) -> Option<StrataAssessment> {
        let strata = self.state.get(rule)?.get(rate)?;
        let rule = self.rules.get(rule)?;
        let level = rule.guarantee?.promise.level()?;
        let whole = rule.share_of_strata();
        let tested: Vec<(f64, f64)> = strata
            .items
            .unordered()
            .filter_map(|stratum| {
                let test = stratum.test.as_ref()?;
                Some((test.log_e_value(), rule.share(test.rank())? / whole))
            })
            .collect();
        (tested.len() > 1).then(|| StrataAssessment {
            strata: tested.len() as u64,
            log_e_value: log_average(tested.iter().copied()),
            log_threshold: -(level * whole).ln(),
        })
    }

    /// The hypotheses that share the guarantee of a rule; `None` for a detector, or without a guarantee.
    fn family(&self, rule: &Rule) -> Option<&Family> {
        self.families.get(&rule.family).filter(|_| rule.guarantee.is_some())
    }

    fn stratum(&self, rule: usize, rate: usize, stratum: &str) -> Option<&Stratum> {
        let items = &self.state.get(rule)?.get(rate)?.items;
        items.get(items.index_of(stratum)?).map(|(_, stratum)| stratum)
    }
}

/// With so many groups, a check looks at their distinct counts instead of at each of them.
const MANY_GROUPS: usize = 32;

impl Stratum {
    /// The size of the gap, if these groups have changed since the last check.
    fn gap_size(&mut self, rule: &Rule, rate: &RuleRate, changed: &[usize]) -> f64 {
        // Sums of numbers depend on the order in which they are added up.
        if rate.is_mean || self.groups.len() <= MANY_GROUPS {
            return Gap::of(rule, &self.groups).size;
        }
        let Stratum { groups, distinct, .. } = self;
        let is_first = distinct.is_empty();
        let mut update = |index: usize| {
            if let Some((_, counts)) = groups.get(index) {
                distinct.update(index, counts);
            }
        };
        match is_first {
            true => (0..groups.len()).for_each(&mut update),
            false => changed.iter().copied().for_each(&mut update),
        }
        Gap::size_of(rule, groups, distinct)
    }

    /// What an alarm that is raised now rests on.
    fn basis(
        &self,
        rule: &Rule,
        rate: &RuleRate,
        name: &str,
        family: Option<&Family>,
        time: Time,
    ) -> AlarmBasis {
        let by_evidence = self.test.as_ref().and_then(|test| test.basis(rule, &self.groups, family, time));
        if let Some(basis) = by_evidence {
            let message = words::raised_by_evidence(rule, rate, name, &basis);
            return AlarmBasis { message, ..basis };
        }
        let gap = Gap::of(rule, &self.groups);
        AlarmBasis::of_gap(rule, &gap, time, words::change(rule, rate, name, &gap, None))
    }

    /// The gap and the message of an alarm that is cleared now.
    fn cleared(&self, rule: &Rule, rate: &RuleRate, name: &str, basis: &AlarmBasis) -> (f64, String) {
        let since = basis.since;
        if let Some(test) = &self.test {
            let (gap, groups) = test.recovered(rule, &self.groups, &basis.groups);
            return (gap, words::cleared_by_evidence(rule, rate, name, gap, &groups, since));
        }
        let gap = Gap::of(rule, &self.groups);
        (gap.size, words::change(rule, rate, name, &gap, Some(since)))
    }
}

impl Strata {
    /// Computes what follows from the rest.
    fn recompute(&mut self, rule: &Rule, family: Option<&Family>) {
        for index in 0..self.items.len() {
            let Some((_, stratum)) = self.items.get_mut(index) else { continue };
            if stratum.is_new {
                self.new.push(index);
            }
            let Some(test) = &stratum.test else { continue };
            self.tested += 1;
            let shared = family.zip(rule.share(test.rank()));
            if let Some((family, share)) = shared.filter(|_| stratum.alarm.is_none()) {
                family.compare(&mut self.contenders, index, share, test.log_e_value());
            }
        }
    }
}

/// What a check of a rate raises and clears.
struct RateChanges<'a> {
    index: (usize, usize),
    rule: &'a Rule,
    rate: &'a RuleRate,
    time: Time,
    /// Number of alarms raised so far, over all rates.
    raised: &'a mut u64,
    history: &'a mut Option<History>,
    recorded: Option<&'a ChainHead>,
    changes: Vec<AlarmChange>,
}

impl RateChanges<'_> {
    /// Keeps the estimates of the groups with these indices, which have changed, if there is a history.
    fn note_estimates(&mut self, name: &str, stratum: &Stratum, changed: &[usize]) {
        let (rule, (number, rate)) = (self.rule, self.index);
        let Some(history) = self.history else { return };
        let estimator = Estimator::of_estimates(rule, stratum.groups.values());
        // A prior that is pooled changes every estimate.
        let is_pooled = rule.prior.is_none() && rule.confidence != 0.0;
        let indices = if is_pooled { stratum.groups.order() } else { changed };
        let groups = indices.iter().filter_map(|index| stratum.groups.get(*index));
        let estimates = groups.map(|(group, counts)| (group, estimator.estimate(counts)));
        history.note((number, rate, name), self.time, &Gap::of(rule, &stratum.groups), estimates);
    }

    fn raise(&mut self, name: &str, stratum: &mut Stratum, family: Option<&Family>) {
        let (number, rate) = self.index;
        let basis = stratum.basis(self.rule, self.rate, name, family, self.time);
        let basis = AlarmBasis { recorded: self.recorded.cloned(), ..basis };
        if let Some(history) = self.history {
            let trials = stratum.groups.unordered().map(|counts| counts.denominator).sum();
            history.raise((number, rate, name), basis.clone(), trials);
        }
        stratum.alarm = Some(basis.clone());
        stratum.raised += 1;
        *self.raised += 1;
        let (gap, message) = (basis.gap, basis.message.clone());
        self.changes.push(AlarmChange { rate, stratum: name.to_owned(), raised: true, gap, message, basis });
    }

    fn clear(&mut self, name: &str, stratum: &mut Stratum) {
        let Some(basis) = stratum.alarm.take() else { return };
        let (number, rate) = self.index;
        if let Some(history) = self.history {
            history.clear((number, rate, name), self.time);
        }
        stratum.last_alarm = Some((basis.since.0, self.time.0));
        let (gap, message) = stratum.cleared(self.rule, self.rate, name, &basis);
        stratum.test.iter_mut().for_each(StratumTest::restart);
        self.changes.push(AlarmChange { rate, stratum: name.to_owned(), raised: false, gap, message, basis });
    }
}

#[cfg(test)]
mod tests;
