//! The sequential test of a stratum with a guarantee: new counts go into an e-process, which decides about the alarm.

use fairstream_core::Time;
use fairstream_guarantee::{
    EProcess, ErrorControl, Family, Hypothesis, ImplicatedGroups, Interval, Outcome, Reference, TestResult,
    TrialTotals,
};
use serde::{Deserialize, Serialize};

use super::{AlarmBasis, AlarmedGroup, Counts, NamedVec, Rule};
use crate::Comparison;

/// The test of one stratum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "TestDocument", into = "TestDocument")]
pub(super) struct StratumTest {
    /// Rank of the stratum by its first trial, from 0. It determines the stratum's share of the guarantee.
    rank: u64,
    /// Indices of the groups in the stratum, in order of their first trial: by their numbers in the e-process.
    groups: Vec<usize>,
    /// For each group of the stratum, by its index, its number in the e-process.
    numbers: Vec<Option<usize>>,
    e_process: EProcess,
    /// The hypothesis, as long as there are so many groups.
    hypothesis: Option<(usize, Hypothesis)>,
}

/// A test as it outlives the program.
#[derive(Serialize, Deserialize)]
struct TestDocument {
    rank: u64,
    /// The groups, by their rows among those of the stratum, in order of their first trial.
    groups: Vec<usize>,
    e_process: EProcess,
}

impl From<StratumTest> for TestDocument {
    fn from(StratumTest { rank, groups, e_process, .. }: StratumTest) -> TestDocument {
        TestDocument { rank, groups, e_process }
    }
}

impl From<TestDocument> for StratumTest {
    fn from(TestDocument { rank, groups, e_process }: TestDocument) -> StratumTest {
        StratumTest { rank, groups, numbers: Vec::new(), e_process, hypothesis: None }
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
            e_process: EProcess::default(),
            hypothesis: None,
        }
    }

    /// Whether this can be a test of so many groups; one that was read back may not be.
    pub(super) fn is_valid(&self, groups: usize) -> bool {
        let mut known = vec![false; groups];
        let is_new =
            |index: &usize| known.get_mut(*index).is_some_and(|known| !std::mem::replace(known, true));
        self.groups.iter().all(is_new) && self.e_process.is_valid(self.groups.len())
    }

    /// Finds the numbers of the groups, which are not written.
    pub(super) fn number_groups(&mut self) {
        for (number, index) in self.groups.iter().enumerate() {
            if self.numbers.len() <= *index {
                self.numbers.resize(index + 1, None);
            }
            self.numbers[*index] = Some(number);
        }
    }

    /// Counts a trial of the group with this index, and returns the number of its block; `None` if the stratum is not
    /// tested.
    pub(super) fn count(
        &mut self,
        rule: &Rule,
        counts: &NamedVec<Counts>,
        group: usize,
        value: f64,
        time: Time,
    ) -> Option<u64> {
        let number = self.number(group);
        let hypothesis = match self.hypothesis {
            Some((groups, hypothesis)) if groups == self.groups.len() => hypothesis,
            _ => {
                let hypothesis = self.hypothesis(rule, counts)?;
                self.hypothesis.insert((self.groups.len(), hypothesis)).1
            }
        };
        Some(self.e_process.count(&hypothesis, number, scaled(rule, value), time.0))
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

    /// Looks at the evidence that has come in since the last check; `false` if there is none.
    pub(super) fn look(&mut self) -> bool {
        self.e_process.look()
    }

    /// Rank of the stratum by its first trial, from 0.
    pub(super) fn rank(&self) -> u64 {
        self.rank
    }

    /// Natural logarithm of the e-value.
    pub(super) fn log_e_value(&self) -> f64 {
        self.e_process.log_e_value()
    }

    /// What a detector makes of new evidence.
    pub(super) fn detect(&mut self, rule: &Rule, counts: &NamedVec<Counts>, stands: bool) -> AlarmTransition {
        let Some(hypothesis) = self.hypothesis(rule, counts) else { return AlarmTransition::Stay };
        if !stands && self.e_process.exceeds_threshold(&hypothesis) {
            let groups = self.implicated(&hypothesis, counts);
            self.e_process.await_recovery(groups);
            AlarmTransition::Raise
        } else if stands && self.e_process.has_recovered() {
            AlarmTransition::Clear
        } else {
            AlarmTransition::Stay
        }
    }

    /// Resets the evidence, once an alarm has been cleared.
    pub(super) fn restart(&mut self) {
        self.e_process.restart();
    }

    /// The number of a group in the e-process.
    fn number(&mut self, index: usize) -> usize {
        if self.numbers.len() <= index {
            self.numbers.resize(index + 1, None);
        }
        let groups = &mut self.groups;
        *self.numbers[index].get_or_insert_with(|| {
            groups.push(index);
            groups.len() - 1
        })
    }

    /// The numbers of the groups in their order.
    fn order(&self, counts: &NamedVec<Counts>) -> Vec<usize> {
        counts.order().iter().filter_map(|index| *self.numbers.get(*index)?).collect()
    }

    /// The groups that the evidence is about.
    fn implicated(&self, hypothesis: &Hypothesis, counts: &NamedVec<Counts>) -> ImplicatedGroups {
        let leading = self.e_process.leading(hypothesis, &self.order(counts));
        leading.map(|leading| leading.groups).unwrap_or_default()
    }

    /// What an alarm that this check raises rests on, without its message. `None` if the stratum is not tested.
    pub(super) fn basis(
        &self,
        rule: &Rule,
        counts: &NamedVec<Counts>,
        family: Option<&Family>,
        since: Time,
    ) -> Option<AlarmBasis> {
        let hypothesis = self.hypothesis(rule, counts)?;
        let leading = self.e_process.leading(&hypothesis, &self.order(counts))?;
        // A learner that knows all blocks is about all trials.
        let is_late = hypothesis.control != ErrorControl::Ever || leading.first_block > 1;
        let (low, width) = range(rule);
        let named = |number: usize| {
            let (name, counts) = counts.get(*self.groups.get(number)?)?;
            let (numerator, denominator) = match is_late {
                true => {
                    let TrialTotals { trials, sum } = self.e_process.leading_totals(&hypothesis, number);
                    (low * trials as f64 + sum * width, trials)
                }
                false => (counts.numerator, counts.denominator),
            };
            Some(AlarmedGroup::new(name, numerator, denominator))
        };
        let ImplicatedGroups { too_high, too_low } = leading.groups;
        let groups = [too_high, too_low].into_iter().flatten().filter_map(named);
        let (gap, groups) = gap_of_shares(rule, groups.collect());
        Some(AlarmBasis {
            since,
            message: String::new(),
            groups,
            blocks: is_late.then_some(leading.blocks),
            gap,
            tolerance: rule.tolerance,
            log_e_value: Some(self.e_process.log_e_value()),
            log_threshold: Some(self.log_threshold(rule, family, true, &hypothesis)),
            log_p_value: self.e_process.log_p_value(&hypothesis),
            recorded: None,
        })
    }

    /// The counts of groups that an alarm is cleared by, and the gap between them.
    pub(super) fn recovered(
        &self,
        rule: &Rule,
        counts: &NamedVec<Counts>,
        groups: &[AlarmedGroup],
    ) -> (f64, Vec<AlarmedGroup>) {
        let (low, width) = range(rule);
        let since = |group: &AlarmedGroup| {
            let number = counts.index_of(&group.values).and_then(|index| *self.numbers.get(index)?);
            let TrialTotals { trials, sum } =
                number.map(|number| self.e_process.recovered(number)).unwrap_or_default();
            AlarmedGroup::new(&group.values, low * trials as f64 + sum * width, trials)
        };
        gap_of_shares(rule, groups.iter().map(since).collect())
    }

    /// Natural logarithm of the e-value above which an alarm is raised. That of a family depends on how many of the other
    /// hypotheses have been rejected.
    fn log_threshold(
        &self,
        rule: &Rule,
        family: Option<&Family>,
        stands: bool,
        hypothesis: &Hypothesis,
    ) -> f64 {
        let shared = family.zip(rule.share(self.rank));
        shared.map_or(hypothesis.log_threshold(), |(family, share)| family.log_threshold(share, stands))
    }

    /// The evidence so far.
    pub(super) fn assess(
        &self,
        rule: &Rule,
        counts: &NamedVec<Counts>,
        family: Option<&Family>,
        stands: bool,
    ) -> Assessment {
        let hypothesis = self.hypothesis(rule, counts).map(|hypothesis| {
            let log_threshold = self.log_threshold(rule, family, stands, &hypothesis);
            Hypothesis { level: (-log_threshold).exp(), ..hypothesis }
        });
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
                .filter_map(|(group, interval)| Some((counts.get(*group)?.0.to_owned(), unscaled(*interval))))
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

/// Rescales a number in the rule's range to one between 0 and 1.
fn scaled(rule: &Rule, value: f64) -> f64 {
    let (low, width) = range(rule);
    ((value - low) / width).clamp(0.0, 1.0)
}
