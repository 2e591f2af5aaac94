//! Evidence of a detector: the sum over learners, of which one begins at every step. It is at most the statistic of
//! Shiryaev and Roberts, whose average time to a false alarm is at least its threshold.

use crate::Hypothesis;
use crate::e_process::log_sum_exp;
use crate::learner::Learner;

/// A learner is kept for so many steps, times the largest power of two that divides the number of its first step: at any
/// time the ages of those that are kept are about geometric.
const KEPT: u64 = 8;

/// The largest power of two, as an exponent. At most 64 learners are kept.
const OLDEST: u32 = 13;

/// Begins a learner, and drops those that are too old for their first step.
pub(crate) fn begin_step(learners: &mut Vec<Learner>, step: u64, blocks: u64) {
    learners.retain(|learner| step - learner.start < KEPT << learner.start.trailing_zeros().min(OLDEST));
    learners.push(Learner::new(step, blocks));
}

/// Logarithm of the sum.
pub(crate) fn log_e_value(learners: &[Learner], hypothesis: &Hypothesis) -> f64 {
    log_sum_exp(learners.iter().map(Learner::log_sum)) - (hypothesis.beliefs().len() as f64).ln()
}
