//! Sequential tests of fairness with a guaranteed rate of false alarms, at any stopping time and any number of checks.
//! Input is counts of trials, block by block; output is a verdict. Knows no stream, no file, no time.
//!
//! The null hypothesis is that a system is fair: at all times the rates of its groups are in a [`FairSet`]. Trials are
//! divided into blocks by a rule that does not depend on outcomes. For each block, with m trials and a positives in a
//! group,
//!
//! 1. `q` is the estimate of the group's rate from earlier blocks: (positives + 1) / (trials + 2);
//! 2. `r` is the reverse information projection of `q` onto the fair set: the fair point with the least Σ m · KL(q ‖ r);
//! 3. the e-value is multiplied by Π (q / r)^a · ((1 − q) / (1 − r))^(m − a).
//!
//! Under the null hypothesis the expectation of each factor is at most 1, so the e-values form a nonnegative
//! supermartingale, and by Ville's inequality the probability that they ever reach 1/α is at most α. Values between 0
//! and 1 can replace 0 and 1 without any change: the factor is convex in them, so 0 and 1 are the worst case.
//!
//! The logarithm of each factor of 3 is what a group contributes to the evidence. An alarm is about the groups that
//! contributed most: one whose rate is too high and one whose rate is too low.
//!
//! ```
//! use fairstream_guarantee::{FairSet, ErrorControl, Hypothesis, EProcess, Outcome, TrialTotals};
//!
//! let hypothesis = Hypothesis::new(FairSet::Difference(0.1), ErrorControl::Ever, 0.05);
//! let mut e_process = EProcess::default();
//! for _ in 0..30 {
//!     e_process.count(0, TrialTotals { trials: 10, sum: 5.0 });
//!     e_process.count(1, TrialTotals { trials: 10, sum: 2.0 });
//!     e_process.close_block(&hypothesis);
//! }
//! assert!(e_process.exceeds_threshold(&hypothesis));
//! assert_eq!(e_process.result(&hypothesis).outcome, Outcome::Unfair);
//! ```

mod block;
mod contribution;
mod e_process;
mod ever;
mod fair_set;
mod fairness;
mod hypothesis;
mod interval;
mod knowledge;
mod learner;
mod pair_bets;
mod restarts;
mod test_result;

pub use block::TrialTotals;
pub use contribution::ImplicatedGroups;
pub use e_process::{EProcess, LeadingEvidence};
pub use fair_set::FairSet;
pub use hypothesis::{ErrorControl, Hypothesis, Reference, StepUnit};
pub use interval::{Interval, interval};
pub use knowledge::DecayedTotals;
pub use test_result::{Outcome, TestResult};

/// The share of α that the `index`-th (from 0) of an unknown number of hypotheses gets: 1/2, 1/6, 1/12, … The shares of
/// all hypotheses sum to at most 1, so their number need not be known in advance.
pub fn alpha_share(index: u64) -> f64 {
    let place = index as f64 + 1.0;
    1.0 / (place * (place + 1.0))
}
