//! Recomputes e-values block by block: a second implementation of what `fairstream-guarantee` does, written
//! independently of it.

use std::collections::BTreeMap;

use fairstream_core::Time;

use super::replay::{RateRule, RecomputedAlarm, StratumEvidence, gap_of};
use crate::judge::words;
use crate::{Comparison, Promise, Rule};

/// Margin by which the log e-value must exceed its threshold, so that rounding does not decide.
const ROUNDING: f64 = 1e-9;

/// The factor of one block, recomputed.
#[derive(Clone, Debug)]
pub(super) struct BlockStep {
    pub(super) number: u64,
    pub(super) time: Time,
    pub(super) groups: Vec<GroupStep>,
    pub(super) factor: f64,
    /// Logarithm of the e-value after this block.
    pub(super) log_evidence: f64,
}

#[derive(Clone, Debug)]
pub(super) struct GroupStep {
    pub(super) group: String,
    pub(super) trials: f64,
    /// Number of positive trials, or the rescaled sum of their values; between 0 and `trials`.
    pub(super) positives: f64,
    pub(super) estimate: f64,
    pub(super) fair: f64,
}

impl StratumEvidence {
    /// Recomputes the e-values block by block, and returns the alarms.
    pub(super) fn by_guarantee(&self, rate_rule: &RateRule, name: &str, rank: usize) -> Vec<RecomputedAlarm> {
        let (rule, mut alarms, mut stands) = (&rate_rule.rule, Vec::new(), false);
        let Some(threshold) = needed(rule, rank) else { return alarms };
        let mut log_evidence: f64 = 0.0;
        let mut steps: Vec<BlockStep> = Vec::new();
        let mut known: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        let mut counted: BTreeMap<&str, f64> = BTreeMap::new();
        for block in self.blocks(rule.guarantee.map_or(1, |guarantee| guarantee.block)) {
            for (group, (trials, _)) in &block.groups {
                *counted.entry(group).or_default() += trials;
            }
            let is_small = |group: &str| counted.get(group).is_some_and(|all| *all < rule.min_trials as f64);
            let mut groups: Vec<GroupStep> = Vec::new();
            for (group, (trials, sum)) in &block.groups {
                let (before, positives) = known.get(group).copied().unwrap_or_default();
                let estimate = (positives + 1.0) / (before + 2.0);
                let positives = match rule.range {
                    Some((low, high)) => ((sum - low * trials) / (high - low)).clamp(0.0, *trials),
                    None => *sum,
                };
                let group = (*group).to_owned();
                groups.push(GroupStep { group, trials: *trials, positives, estimate, fair: estimate });
            }
            let compared: Vec<usize> =
                (0..groups.len()).filter(|index| !is_small(&groups[*index].group)).collect();
            project(rule, &mut groups, &compared);
            let log_factor: f64 = compared.iter().map(|index| groups[*index].log_factor()).sum();
            let (floor, kept) = match rule.guarantee.map(|guarantee| guarantee.promise) {
                Some(Promise::Every { memory, .. }) => {
                    let trials: f64 = groups.iter().map(|group| group.trials).sum();
                    (0.0, memory as f64 / (memory as f64 + trials))
                }
                _ => (f64::NEG_INFINITY, 1.0),
            };
            log_evidence = log_evidence.max(floor) + log_factor;
            for of_group in known.values_mut() {
                *of_group = (of_group.0 * kept, of_group.1 * kept);
            }
            for ((group, _), step) in block.groups.iter().zip(&groups) {
                let of_group = known.entry(group).or_default();
                *of_group = (of_group.0 + step.trials, of_group.1 + step.positives);
            }
            let factor = log_factor.exp();
            steps.push(BlockStep { number: block.number, time: block.time, groups, factor, log_evidence });
            if !stands && log_evidence > threshold.ln() + ROUNDING {
                stands = true;
                let groups = self.counted(block.check);
                let gap = gap_of(rule, &groups);
                let evidence = Some((log_evidence.exp(), threshold));
                let message = words::change(rule, &rule.rates[rate_rule.rate], name, &gap, evidence, None);
                let blocks = steps.clone();
                alarms.push(RecomputedAlarm { time: block.time, message, groups, blocks, threshold });
            } else if stands && floor == 0.0 && is_fair_of_late(rule, &known, &counted) {
                (stands, log_evidence) = (false, 0.0);
            }
        }
        alarms
    }

    /// Closed blocks: those with enough trials.
    fn blocks(&self, least: u64) -> Vec<BlockCounts<'_>> {
        let mut blocks: Vec<BlockCounts<'_>> = Vec::new();
        for row in &self.rows {
            let Some((value, Some(number))) = row.trial else { continue };
            if blocks.last().is_none_or(|last| last.number != number) {
                blocks.push(BlockCounts {
                    number,
                    time: row.time,
                    check: row.check,
                    groups: BTreeMap::new(),
                });
            }
            if let Some(block) = blocks.last_mut() {
                (block.time, block.check) = (row.time, row.check);
                let (trials, sum) = block.groups.entry(&row.group).or_default();
                *trials += 1.0;
                *sum += value;
            }
        }
        // The last block is still open if it has too few trials.
        let trials: f64 =
            blocks.last().iter().flat_map(|last| last.groups.values()).map(|(trials, _)| trials).sum();
        if trials < least as f64 {
            blocks.pop();
        }
        blocks
    }
}

struct BlockCounts<'a> {
    number: u64,
    time: Time,
    check: u64,
    /// Number of trials of each group, and the sum of their values.
    groups: BTreeMap<&'a str, (f64, f64)>,
}

/// Whether the discounted estimates of a detector are within the tolerance. Groups with less than one discounted trial
/// are ignored.
fn is_fair_of_late(rule: &Rule, known: &BTreeMap<&str, (f64, f64)>, counted: &BTreeMap<&str, f64>) -> bool {
    let width = rule.range.map_or(1.0, |(low, high)| high - low);
    let is_compared =
        |group: &&str| counted.get(*group).is_some_and(|all| *all >= rule.min_trials.max(1) as f64);
    let rates = known.iter().filter(|(group, (trials, _))| *trials >= 1.0 && is_compared(group));
    let rates: Vec<f64> = rates.map(|(_, (trials, sum))| (sum + 1.0) / (trials + 2.0)).collect();
    let most = rates.iter().copied().fold(0.0, f64::max);
    let least = rates.iter().copied().fold(1.0, f64::min);
    rates.is_empty()
        || match rule.comparison {
            Comparison::Difference => most - least <= rule.tolerance / width,
            Comparison::Ratio => least >= rule.tolerance * most,
            Comparison::Highest => most <= rule.tolerance,
        }
}

/// The e-value above which a stratum has an alarm.
fn needed(rule: &Rule, rank: usize) -> Option<f64> {
    let guarantee = rule.guarantee?;
    let of_all = match guarantee.promise {
        Promise::Ever(level) => 1.0 / level,
        Promise::Every { blocks, .. } => blocks,
    };
    let of_strata = match guarantee.strata {
        _ if rule.strata.is_empty() => 1.0,
        Some(strata) if rank as u64 >= strata => return None,
        Some(strata) => strata as f64,
        None => (rank as f64 + 1.0) * (rank as f64 + 2.0),
    };
    Some(of_all * of_strata * rule.rates.len() as f64)
}

impl GroupStep {
    pub(super) fn log_factor(&self) -> f64 {
        let mut log = 0.0;
        if self.estimate != self.fair {
            if self.positives > 0.0 {
                log += self.positives * (self.estimate.ln() - self.fair.ln());
            }
            let rest = self.trials - self.positives;
            if rest > 0.0 {
                log += rest * ((1.0 - self.estimate).ln() - (1.0 - self.fair).ln());
            }
        }
        log
    }
}

/// Projects the estimates of the compared groups onto the fair set: finds the window at which the derivatives of the
/// divergence at its lower and its upper end cancel.
fn project(rule: &Rule, groups: &mut [GroupStep], compared: &[usize]) {
    let width = rule.range.map_or(1.0, |(low, high)| high - low);
    let upper = |lower: f64| match rule.comparison {
        Comparison::Difference => lower + rule.tolerance / width,
        Comparison::Ratio => lower / rule.tolerance,
        Comparison::Highest => rule.tolerance,
    };
    let lower = match rule.comparison {
        Comparison::Highest => 0.0,
        Comparison::Ratio if rule.tolerance == 0.0 => return,
        _ => {
            let pull = |end: f64, estimate: f64, trials: f64| trials * (estimate - end) / (end * (1.0 - end));
            let stretch = if rule.comparison == Comparison::Ratio { 1.0 / rule.tolerance } else { 1.0 };
            let is_too_low = |lower: f64| {
                let upper = upper(lower);
                let mut balance = 0.0;
                for group in compared.iter().map(|index| &groups[*index]) {
                    if group.estimate > upper {
                        balance += stretch * pull(upper, group.estimate, group.trials);
                    } else if group.estimate < lower {
                        balance += pull(lower, group.estimate, group.trials);
                    }
                }
                balance > 0.0
            };
            let estimates = || compared.iter().map(|index| groups[*index].estimate);
            let (least, most) = (estimates().fold(1.0, f64::min), estimates().fold(0.0, f64::max));
            if most <= upper(least) {
                return;
            }
            // The lower end of a window that ends at the highest estimate.
            let last = if rule.comparison == Comparison::Ratio {
                most * rule.tolerance
            } else {
                most - rule.tolerance / width
            };
            let mut bounds = (least, last);
            for _ in 0..100 {
                let third = (bounds.1 - bounds.0) / 3.0;
                let (one, two) = (bounds.0 + third, bounds.1 - third);
                bounds = if !is_too_low(one) {
                    (bounds.0, one)
                } else if is_too_low(two) {
                    (two, bounds.1)
                } else {
                    (one, two)
                };
            }
            (bounds.0 + bounds.1) / 2.0
        }
    };
    for index in compared {
        groups[*index].fair = groups[*index].estimate.clamp(lower, upper(lower).max(lower));
    }
}
