//! Hypotheses that share one guarantee: strata, rates, comparisons. Which of them are rejected depends on how many have
//! been: the more, the less evidence the others need.
//!
//! Each hypothesis has a share γ of the guarantee, fixed before its first outcome; all shares sum to at most 1. With a
//! level α, a hypothesis with the e-value W is rejected when
//!
//! ```text
//! false alarms        W ≥ (1 − Γ) / (α γ)     Γ: the shares of those that have been rejected (Holm)
//! false discoveries   W ≥ 1 / (α γ k)         k: how many have been rejected, with this one (e-BH)
//! ```
//!
//! and never below 1/α. Rejections are final.
//!
//! Both bounds need that each W is a nonnegative supermartingale given everything that has been seen of all hypotheses,
//! which follows if trials are independent of each other.
//!
//! *False alarms*: let S be the sum of the shares of all true hypotheses, which must not depend on outcomes: neither may
//! which hypotheses there are, nor their order. The sum of γ W over the true ones is a supermartingale that begins with S.
//! When the first of them is rejected, all that were rejected before are false, so that 1 − Γ ≥ S and this sum is at least
//! γ W ≥ (1 − Γ) / α ≥ S / α. By Ville's inequality that ever happens with a probability of at most α.
//!
//! *False discoveries*: let τ be the time at which a true hypothesis is rejected as one of k. At any later time there are
//! K ≥ k rejections, of which it is the fraction 1/K ≤ 1/k ≤ α γ W(τ). W(τ) is at most 1 on average, so the expected
//! fraction of true hypotheses is at most α times the sum of their shares, at any time at which one stops.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::e_process::ROUNDING;

/// What a family bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FamilyBound {
    /// The probability that any true hypothesis is ever rejected.
    FalseAlarms,
    /// The expected fraction of true hypotheses among those that are rejected.
    FalseDiscoveries,
}

/// Hypotheses that share one guarantee, and how many of them have been rejected.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Family {
    bound: FamilyBound,
    level: f64,
    rejected: u64,
    rejected_share: f64,
}

/// Hypotheses of a family with an e-value above 1/α that have not been rejected, the strongest first. Each has a number of
/// the caller's choice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contenders {
    by_strength: BTreeSet<(Strength, usize)>,
    strengths: Vec<Option<Strength>>,
    shares: Vec<f64>,
    /// Number of rejections in the family when these contenders were last found too weak; `None` if they have changed since.
    settled_at: Option<u64>,
}

/// Logarithm of the e-value times the share; larger ones come first.
#[derive(Clone, Copy, Debug)]
struct Strength(f64);

impl Family {
    /// A family of which nothing has been rejected.
    pub fn new(bound: FamilyBound, level: f64) -> Family {
        Family { bound, level, rejected: 0, rejected_share: 0.0 }
    }

    /// Whether this can be a later state of a family of which nothing has been rejected; one that was read back may not be.
    pub fn continues(&self, new: &Family) -> bool {
        (self.bound, self.level) == (new.bound, new.level)
            && self.rejected < 1 << 48
            && (0.0..=1.0 + ROUNDING).contains(&self.rejected_share)
    }

    /// Logarithm of the e-value that a hypothesis with this share needs, given the others that have been rejected.
    pub fn log_threshold(&self, share: f64, is_rejected: bool) -> f64 {
        let own = if is_rejected { (1, share) } else { (0, 0.0) };
        let others = (self.rejected.saturating_sub(own.0), self.rejected_share - own.1);
        let least = -self.level.ln();
        match self.bound {
            FamilyBound::FalseAlarms => least + ((1.0 - others.1) / share).ln().max(0.0),
            FamilyBound::FalseDiscoveries => least - (share * (others.0 + 1) as f64).ln().min(0.0),
        }
    }

    /// Rejects all contenders with enough evidence, and removes them. The numbers of those, the strongest first.
    pub fn reject(&mut self, contenders: &mut Contenders) -> Vec<usize> {
        let mut rejected = Vec::new();
        if contenders.settled_at == Some(self.rejected) {
            return rejected;
        }
        match self.bound {
            FamilyBound::FalseAlarms => {
                while let Some((number, share)) = contenders.first(|strength, share| {
                    strength > self.log_threshold(share, false) + share.ln() + ROUNDING
                }) {
                    self.note(share);
                    contenders.remove(number);
                    rejected.push(number);
                }
            }
            FamilyBound::FalseDiscoveries => {
                // The largest number that can be rejected together. All have more than 1/α already.
                let least = -self.level.ln();
                let so_far = self.rejected as f64;
                let ranked = contenders.by_strength.iter().zip(1_u64..);
                let is_enough =
                    |strength: f64, rank: u64| strength > least - (so_far + rank as f64).ln() + ROUNDING;
                let most = ranked.filter(|((strength, _), rank)| is_enough(strength.0, *rank)).last();
                let most = most.map_or(0, |(_, rank)| rank as usize);
                rejected.extend(contenders.by_strength.iter().take(most).map(|(_, number)| *number));
                for number in &rejected {
                    self.note(contenders.shares[*number]);
                    contenders.remove(*number);
                }
            }
        }
        contenders.settled_at = Some(self.rejected);
        rejected
    }

    fn note(&mut self, share: f64) {
        self.rejected += 1;
        self.rejected_share += share;
    }

    /// Sets the e-value of a hypothesis with this share, which has not been rejected.
    pub fn compare(&self, contenders: &mut Contenders, number: usize, share: f64, log_e_value: f64) {
        contenders.remove(number);
        if log_e_value > ROUNDING - self.level.ln() {
            contenders.insert(number, share, log_e_value);
        }
    }
}

impl Contenders {
    /// The number and the share of the strongest one, if its strength and share are enough.
    fn first(&self, is_enough: impl Fn(f64, f64) -> bool) -> Option<(usize, f64)> {
        let (strength, number) = self.by_strength.first()?;
        let share = self.shares[*number];
        is_enough(strength.0, share).then_some((*number, share))
    }

    fn insert(&mut self, number: usize, share: f64, log_e_value: f64) {
        if self.strengths.len() <= number {
            self.strengths.resize(number + 1, None);
            self.shares.resize(number + 1, 0.0);
        }
        let strength = Strength(log_e_value + share.ln());
        self.strengths[number] = Some(strength);
        self.shares[number] = share;
        self.by_strength.insert((strength, number));
        self.settled_at = None;
    }

    fn remove(&mut self, number: usize) {
        if let Some(strength) = self.strengths.get_mut(number).and_then(Option::take) {
            self.by_strength.remove(&(strength, number));
        }
    }
}

impl PartialEq for Strength {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Strength {}

impl PartialOrd for Strength {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Strength {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.0.total_cmp(&self.0)
    }
}

/// Logarithm of the average of e-values with these logarithms and shares: evidence that at least one of the hypotheses is
/// false, which is enough at 1/α. What is left of the shares counts as 1.
pub fn log_average(hypotheses: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let most = hypotheses.clone().map(|(log, _)| log).fold(0.0, f64::max);
    if most.is_infinite() {
        return most;
    }
    let left = 1.0 - hypotheses.clone().map(|(_, share)| share).sum::<f64>();
    let sum: f64 = hypotheses.map(|(log, share)| share * (log - most).exp()).sum();
    most + (sum + left.max(0.0) * (-most).exp()).ln()
}
