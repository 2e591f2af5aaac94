//! Evidence for a promise that holds for ever: an average over learners that begin later and later, so that a system that
//! becomes unfair late is found soon, too. The first has a weight of 3/4; the others have 1/2, 1/6, 1/12, … of the rest, and
//! those that have not begun keep their stake.

use crate::e_process::exp_or_zero;
use crate::learner::Learner;
use crate::{Hypothesis, alpha_share};

/// The second learner begins after so many blocks, and each further one after twice as many as the one before.
const SECOND: u64 = 5;

/// The weight of the first learner.
const FIRST: f64 = 0.75;

/// Whether a learner begins after so many blocks.
pub(crate) fn begins_learner(blocks: u64) -> bool {
    blocks == 0 || blocks.is_multiple_of(SECOND) && (blocks / SECOND).is_power_of_two()
}

/// Logarithm of the average.
pub(crate) fn log_e_value(learners: &[Learner], hypothesis: &Hypothesis) -> f64 {
    let beliefs = hypothesis.beliefs().len() as f64;
    let most = learners.iter().map(Learner::log_sum).fold(0.0, f64::max);
    if most.is_infinite() {
        return most;
    }
    let weight = |index: usize| match index {
        0 => FIRST,
        _ => (1.0 - FIRST) * alpha_share(index as u64 - 1),
    };
    let of =
        |(index, learner): (usize, &Learner)| weight(index) / beliefs * exp_or_zero(learner.log_sum() - most);
    let begun: f64 = learners.iter().enumerate().map(of).sum();
    // 1 − 1/2 − 1/6 − … of the rest.
    let others = (1.0 - FIRST) / learners.len().max(1) as f64 * exp_or_zero(-most);
    most + (begun + others).ln()
}
