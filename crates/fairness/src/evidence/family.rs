//! Recomputes which alarms are raised where hypotheses share a guarantee: by going through all checks in their order.

use std::collections::{BTreeMap, BTreeSet};

use fairstream_core::Time;

use crate::{Promise, Rule};

/// Margin by which logarithms must differ, so that rounding does not decide.
const ROUNDING: f64 = 1e-9;

/// A hypothesis: one rate in one stratum.
pub(super) struct FamilyMember<'a> {
    /// The name of the alarms of its rate.
    pub(super) metric: &'a str,
    /// The index of its stratum.
    pub(super) stratum: usize,
    /// The share of the guarantee that it has.
    pub(super) share: f64,
    pub(super) looks: Vec<EvidenceLook>,
}

/// The e-value at a check with new evidence.
pub(super) struct EvidenceLook {
    /// The number of a row that the check wrote. Checks write all their rows together, so that it puts them in order.
    pub(super) row: u64,
    pub(super) check: u64,
    pub(super) time: Time,
    pub(super) log_evidence: f64,
}

/// When an alarm is raised, and what it takes then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rejection {
    pub(super) check: u64,
    pub(super) time: Time,
    /// Logarithm of the threshold.
    pub(super) log_threshold: f64,
}

/// How many have been rejected, and the sum of their shares.
#[derive(Clone, Copy, Default)]
struct Rejected {
    number: f64,
    shares: f64,
}

/// How many hypotheses an e-value has to outweigh, given those that have been rejected without it.
fn outweighed(promise: Promise, others: Rejected, share: f64) -> f64 {
    match promise {
        Promise::Discoveries(_) => (1.0 / (share * (others.number + 1.0))).max(1.0),
        Promise::Ever(_) | Promise::Every { .. } => ((1.0 - others.shares) / share).max(1.0),
    }
}

/// The share of the guarantee of a stratum, by its rank; `None` if the guarantee is for fewer strata.
pub(super) fn share(rule: &Rule, rank: usize) -> Option<f64> {
    let place = rank as f64 + 1.0;
    let of_strata = match rule.guarantee?.strata {
        _ if rule.strata.is_empty() => 1.0,
        Some(strata) if rank as u64 >= strata => return None,
        Some(strata) => strata as f64,
        None => place * (place + 1.0),
    };
    Some(1.0 / (of_strata * rule.rates.len() as f64 * rule.comparisons as f64))
}

/// When each member is rejected, if it ever is; by their indices.
pub(super) fn rejections(
    promise: Promise,
    level: f64,
    members: &[FamilyMember<'_>],
) -> Vec<Option<Rejection>> {
    let mut found: Vec<Option<Rejection>> = vec![None; members.len()];
    let mut logs = vec![0.0; members.len()];
    let mut candidates: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    let mut so_far = Rejected::default();
    for check in checks(members) {
        let candidates = candidates.entry(check.metric).or_default();
        let is_open = check.looks.iter().any(|(index, _)| found[*index].is_none());
        for (index, log_evidence) in check.looks {
            logs[index] = log_evidence;
            match found[index].is_none() && log_evidence > (1.0 / level).ln() + ROUNDING {
                true => candidates.insert(index),
                false => candidates.remove(&index),
            };
        }
        if !is_open {
            continue;
        }
        let strength = |index: usize| logs[index] + members[index].share.ln();
        let mut sorted: Vec<usize> = candidates.iter().copied().collect();
        sorted.sort_by(|one, other| strength(*other).total_cmp(&strength(*one)));
        let together = match promise {
            Promise::Discoveries(_) => (1..=sorted.len())
                .rev()
                .find(|together| {
                    let all = so_far.number + *together as f64;
                    strength(sorted[together - 1]) > (1.0 / (level * all)).ln() + ROUNDING
                })
                .unwrap_or(0),
            Promise::Ever(_) | Promise::Every { .. } => {
                let mut left = 1.0 - so_far.shares;
                let is_enough = |index: &&usize| {
                    let is_enough = strength(**index) > (left / level).ln() + ROUNDING;
                    left -= members[**index].share;
                    is_enough
                };
                sorted.iter().take_while(is_enough).count()
            }
        };
        for index in &sorted[..together] {
            so_far.number += 1.0;
            so_far.shares += members[*index].share;
            candidates.remove(index);
        }
        for index in &sorted[..together] {
            let share = members[*index].share;
            let others = Rejected { number: so_far.number - 1.0, shares: so_far.shares - share };
            let log_threshold = (outweighed(promise, others, share) / level).ln();
            found[*index] = Some(Rejection { check: check.number, time: check.time, log_threshold });
        }
    }
    found
}

/// A check of a metric.
struct MetricCheck<'a> {
    metric: &'a str,
    number: u64,
    time: Time,
    row: u64,
    /// The logarithm of the e-value of each member with new evidence.
    looks: Vec<(usize, f64)>,
}

/// The checks of all members, in the order in which they were made.
fn checks<'a>(members: &[FamilyMember<'a>]) -> Vec<MetricCheck<'a>> {
    let mut checks: BTreeMap<(&str, u64), MetricCheck<'a>> = BTreeMap::new();
    for (index, FamilyMember { metric, looks, .. }) in members.iter().enumerate() {
        for EvidenceLook { row, check: number, time, log_evidence } in looks {
            let check = checks.entry((metric, *number)).or_insert_with(|| MetricCheck {
                metric,
                number: *number,
                time: *time,
                row: *row,
                looks: Vec::new(),
            });
            check.row = check.row.min(*row);
            check.looks.push((index, *log_evidence));
        }
    }
    let mut in_order: Vec<MetricCheck<'a>> = checks.into_values().collect();
    in_order.sort_by_key(|check| check.row);
    in_order
}
