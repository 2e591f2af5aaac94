//! The sequential test of a stratum with a guarantee: new counts go into an e-process, which decides about the alarm.

use std::collections::BTreeMap;

use fairstream_core::Time;
use fairstream_guarantee::{
    DecayedTotals, EProcess, ErrorControl, Hypothesis, Interval, Outcome, Reference, TestResult, TrialTotals,
};
use serde::{Deserialize, Serialize};

use super::{AlarmBasis, AlarmedGroup, Counts, NamedVec, Rule};
use crate::Comparison;

/// The test of one stratum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StratumTest {
    /// Rank of the stratum by its first trial, from 0. It determines the stratum's share of the guarantee.
    rank: u64,
    /// Groups in order of their first trial: their numbers in the e-process.
    groups: Vec<TestedGroup>,
    /// For each group of the stratum, by its index, its number in the e-process.
    numbers: Vec<Option<usize>>,
    /// Counts of the open block, by number; of a detector only.
    open: BTreeMap<usize, RawCounts>,
    /// Counts of the blocks that the e-value is the product of, by number; of a detector only, as for others these are
    /// all counts.
    accumulated: BTreeMap<usize, RawCounts>,
    e_process: EProcess,
}

/// A group that has had a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct TestedGroup {
    /// Its index in the stratum.
    index: usize,
    /// The counts that the e-process has consumed.
    consumed: RawCounts,
}

/// Counts as they are reported: of a mean, the sum is not rescaled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct RawCounts {
    numerator: f64,
    denominator: u64,
}

impl RawCounts {
    fn add(&mut self, other: RawCounts) {
        self.numerator += other.numerator;
        self.denominator += other.denominator;
    }
}

/// What a check does to the alarm of a stratum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AlarmTransition {
    Raise,
    Clear,
    Stay,
}

/// The evidence on a stratum.
#[derive(Clone, Debug, PartialEq)]
pub struct Assessment {
    /// The conclusion.
    pub outcome: Outcome,
    /// Natural logarithm of the e-value against fairness. [`significant_exp`](crate::significant_exp) writes the e-value.
    pub log_e_value: f64,
    /// Natural logarithm of the e-value above which an alarm is raised; `None` if the guarantee is for fewer strata and
    /// this one is not tested.
    pub log_threshold: Option<f64>,
    /// Natural logarithm of an upper bound on the probability that a fair system ever reaches such an e-value; `None` if
    /// no probability is guaranteed.
    pub log_p_value: Option<f64>,
    /// Confidence interval for the gap, ratio or highest rate; `None` if there is nothing to compare.
    pub gap: Option<Interval>,
    /// Number of closed blocks.
    pub blocks: u64,
    /// Number of groups with too few trials to be compared.
    pub small_groups: u64,
    /// Confidence interval for the rate of each group, which is a JSON array of its values.
    pub groups: Vec<(String, Interval)>,
}

impl Assessment {
    /// The outcome as the text of a verdict.
    pub fn verdict(&self) -> &'static str {
        match self.outcome {
            Outcome::Fair => "fair so far",
            Outcome::Unfair => "unfair",
            Outcome::NotYet { .. } => "not enough evidence yet",
        }
    }
}

impl StratumTest {
    pub(super) fn new(rank: u64) -> StratumTest {
        StratumTest {
            rank,
            groups: Vec::new(),
            numbers: Vec::new(),
            open: BTreeMap::new(),
            accumulated: BTreeMap::new(),
            e_process: EProcess::default(),
        }
    }

    /// Adds what has been counted since the last check, and closes the block if it has enough trials. `changed` are the
    /// indices of the groups whose counts have changed, in the order of groups.
    pub(super) fn check(
        &mut self,
        rule: &Rule,
        counts: &NamedVec<Counts>,
        changed: &[usize],
        stands: bool,
    ) -> AlarmTransition {
        let forgets =
            rule.hypothesis(self.rank).is_some_and(|of| matches!(of.control, ErrorControl::Detector { .. }));
        for index in changed {
            let Some((_, counts)) = counts.get(*index) else { continue };
            if counts.denominator == 0 {
                continue;
            }
            let number = self.number(*index);
            let consumed = &mut self.groups[number].consumed;
            // Trials are final, so counts never decrease.
            let trials = counts.denominator.saturating_sub(consumed.denominator);
            if trials > 0 {
                let new = RawCounts { numerator: counts.numerator - consumed.numerator, denominator: trials };
                *consumed = RawCounts { numerator: counts.numerator, denominator: counts.denominator };
                self.e_process
                    .count(number, TrialTotals { trials, sum: scaled(rule, new.numerator, trials) });
                if forgets {
                    self.open.entry(number).or_default().add(new);
                }
            }
        }
        let Some(hypothesis) = self.hypothesis(rule, counts) else { return AlarmTransition::Stay };
        if self.e_process.close_block(&hypothesis).is_none() {
            return AlarmTransition::Stay;
        }
        if self.e_process.accumulated_blocks() == 1 {
            self.accumulated.clear();
        }
        for (number, counts) in std::mem::take(&mut self.open) {
            self.accumulated.entry(number).or_default().add(counts);
        }
        match (stands, hypothesis.control) {
            (false, _) if self.e_process.exceeds_threshold(&hypothesis) => AlarmTransition::Raise,
            (true, ErrorControl::Detector { .. }) if self.e_process.looks_fair(&hypothesis) => {
                self.e_process.restart();
                AlarmTransition::Clear
            }
            _ => AlarmTransition::Stay,
        }
    }

    /// The hypothesis of the stratum, with the reference group by its number. `None` if the stratum is not tested.
    fn hypothesis(&self, rule: &Rule, counts: &NamedVec<Counts>) -> Option<Hypothesis> {
        let number = |reference: &str| *self.numbers.get(counts.index_of(reference)?)?;
        let reference = match rule.reference.as_deref() {
            None => Reference::None,
            Some(reference) => number(reference).map_or(Reference::Absent, Reference::Group),
        };
        Some(Hypothesis { reference, ..rule.hypothesis(self.rank)? })
    }

    /// The number of a group in the e-process.
    fn number(&mut self, index: usize) -> usize {
        if self.numbers.len() <= index {
            self.numbers.resize(index + 1, None);
        }
        let groups = &mut self.groups;
        *self.numbers[index].get_or_insert_with(|| {
            groups.push(TestedGroup { index, consumed: RawCounts::default() });
            groups.len() - 1
        })
    }

    /// What an alarm that this check raises rests on, without its message. `None` if the stratum is not tested.
    pub(super) fn basis(&self, rule: &Rule, counts: &NamedVec<Counts>, since: Time) -> Option<AlarmBasis> {
        let hypothesis = self.hypothesis(rule, counts)?;
        let order: Vec<usize> =
            counts.order().iter().filter_map(|index| *self.numbers.get(*index)?).collect();
        let found = self.e_process.implicated(&hypothesis, &order);
        let forgets = matches!(hypothesis.control, ErrorControl::Detector { .. });
        let named = |number: usize| {
            let of_group = self.groups.get(number)?;
            let RawCounts { numerator, denominator } = match forgets {
                true => self.accumulated.get(&number).copied().unwrap_or_default(),
                false => of_group.consumed,
            };
            Some(AlarmedGroup::new(counts.get(of_group.index)?.0, numerator, denominator))
        };
        let groups = [found.too_high, found.too_low].into_iter().flatten().filter_map(named);
        let (gap, groups) = gap_of_shares(rule, groups.collect());
        Some(AlarmBasis {
            since,
            message: String::new(),
            groups,
            blocks: forgets.then(|| self.e_process.accumulated_blocks()),
            gap,
            tolerance: rule.tolerance,
            log_e_value: Some(self.e_process.log_e_value()),
            log_threshold: Some(hypothesis.log_threshold()),
            log_p_value: self.e_process.log_p_value(&hypothesis),
        })
    }

    /// The discounted counts of groups, which an alarm is cleared by, and the gap between them. The number of trials is
    /// rounded.
    pub(super) fn of_late(
        &self,
        rule: &Rule,
        counts: &NamedVec<Counts>,
        groups: &[AlarmedGroup],
    ) -> (f64, Vec<AlarmedGroup>) {
        let (low, width) = range(rule);
        let decayed = |group: &AlarmedGroup| {
            let number = counts.index_of(&group.values).and_then(|index| *self.numbers.get(index)?);
            let DecayedTotals { trials, sum } =
                number.map(|number| self.e_process.decayed(number)).unwrap_or_default();
            let numerator = low * trials + sum * width;
            AlarmedGroup {
                values: group.values.clone(),
                numerator,
                denominator: trials.round() as u64,
                share: (trials >= 0.5).then(|| numerator / trials),
            }
        };
        gap_of_shares(rule, groups.iter().map(decayed).collect())
    }

    /// The number of the open block.
    pub(super) fn block(&self) -> u64 {
        self.e_process.blocks() + 1
    }

    /// The evidence so far.
    pub(super) fn assess(&self, rule: &Rule, counts: &NamedVec<Counts>, stands: bool) -> Assessment {
        let hypothesis = self.hypothesis(rule, counts);
        let evidence = hypothesis.map(|hypothesis| self.e_process.result(&hypothesis));
        let (low, width) = range(rule);
        let unscaled = |of: Interval| Interval { low: low + of.low * width, high: low + of.high * width };
        let gap_width = if rule.comparison == Comparison::Difference { width } else { 1.0 };
        let not_judged = Outcome::NotYet { further: None };
        Assessment {
            outcome: match &evidence {
                _ if stands => Outcome::Unfair,
                Some(TestResult { outcome: Outcome::Unfair, .. }) | None => not_judged,
                Some(evidence) => evidence.outcome,
            },
            log_e_value: self.e_process.log_e_value(),
            log_threshold: hypothesis.as_ref().map(Hypothesis::log_threshold),
            log_p_value: evidence.as_ref().and_then(|evidence| evidence.log_p_value),
            gap: evidence
                .as_ref()
                .and_then(|evidence| evidence.gap)
                .map(|gap| Interval { low: gap.low * gap_width, high: gap.high * gap_width }),
            blocks: self.e_process.blocks(),
            small_groups: counts.unordered().filter(|counts| !counts.has_evidence(rule)).count() as u64,
            groups: evidence
                .iter()
                .flat_map(|evidence| self.groups.iter().zip(&evidence.groups))
                .filter_map(|(group, interval)| {
                    Some((counts.get(group.index)?.0.to_owned(), unscaled(*interval)))
                })
                .collect(),
        }
    }
}

/// The lower end and the width of the range of numbers.
fn range(rule: &Rule) -> (f64, f64) {
    rule.range.map_or((0.0, 1.0), |(low, high)| (low, high - low))
}

/// The gap or ratio between the shares of two groups, or the share of one; and the groups, the higher share first.
fn gap_of_shares(rule: &Rule, mut groups: Vec<AlarmedGroup>) -> (f64, Vec<AlarmedGroup>) {
    let share = |group: &AlarmedGroup| group.share.unwrap_or_default();
    groups.sort_by(|one, other| share(other).total_cmp(&share(one)));
    let gap = match (groups.as_slice(), rule.comparison) {
        ([high, low], Comparison::Difference) => share(high) - share(low),
        ([high, low], Comparison::Ratio) if share(high) > 0.0 => share(low) / share(high),
        (_, Comparison::Ratio) => 1.0,
        ([high, ..], Comparison::Highest) => share(high),
        _ => 0.0,
    };
    (gap, groups)
}

/// Rescales a sum of numbers in the rule's range to one of numbers between 0 and 1.
fn scaled(rule: &Rule, sum: f64, trials: u64) -> f64 {
    let trials = trials as f64;
    let sum = match rule.range {
        Some((low, high)) => (sum - low * trials) / (high - low),
        None => sum,
    };
    sum.clamp(0.0, trials)
}
