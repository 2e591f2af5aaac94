//! Sequential tests of fairness with a guaranteed rate of false alarms, at any stopping time and any number of looks.
//! Input is trials, in the order in which they became final; output is a verdict. Knows no stream and no file, and of time
//! only how far apart trials are.
//!
//! The null hypothesis is that a system is fair: at all times the rates of its groups are in a [`FairSet`]. Trials are
//! divided into blocks by a rule that does not depend on outcomes. Before each block, learners estimate the rate q of each
//! group from earlier blocks. For a block with m trials and a positives in a group,
//!
//! 1. `r` is the reverse information projection of `q` onto the fair set: the fair point with the least Σ m · KL(q ‖ r);
//! 2. the factor is Π (q / r)^a · ((1 − q) / (1 − r))^(m − a).
//!
//! Under the null hypothesis the expectation of each factor is at most 1, so its products form nonnegative supermartingales,
//! and so do averages of them over the same blocks. By Ville's inequality the probability that such an average ever reaches
//! 1/α is at most α. A detector sums over learners, of which one begins at every step: that sum grows by at most 1 a step
//! on average. Values between 0 and 1 can replace 0 and 1 without any change, as the factor is convex in them; differences
//! of such numbers are bet on in pairs, which is quicker.
//!
//! Several hypotheses can share one guarantee: a [`Family`] bounds the probability of any false alarm, or the expected
//! fraction of false ones among all alarms.
//!
//! With a [`Reference`], each group is compared with one of them alone: fair are rates within the tolerance of its rate,
//! and nothing is bet before it has enough trials.
//!
//! The logarithm of each factor of 2 is what a group contributes to the evidence. An alarm is about the groups that
//! contributed most: one whose rate is too high and one whose rate is too low.
//!
//! ```
//! use fairstream_guarantee::{EProcess, ErrorControl, FairSet, Hypothesis, Outcome};
//!
//! let hypothesis = Hypothesis::new(FairSet::Difference(0.1), ErrorControl::Ever, 0.05);
//! let mut e_process = EProcess::default();
//! for trial in 0..600 {
//!     // Of the first group every second trial is positive, of the other one in five.
//!     let group = trial % 2;
//!     let is_positive = trial / 2 % [2, 5][group] == 0;
//!     e_process.count(&hypothesis, group, f64::from(u8::from(is_positive)), trial as i64);
//! }
//! e_process.look();
//! assert!(e_process.exceeds_threshold(&hypothesis));
//! assert_eq!(e_process.result(&hypothesis).outcome, Outcome::Unfair);
//! ```

mod block;
mod contribution;
mod e_process;
mod ever;
mod fair_set;
mod fairness;
mod family;
mod hypothesis;
mod interval;
mod knowledge;
mod learner;
mod pair_bets;
mod restarts;
mod test_result;
pub mod written;

pub use block::TrialTotals;
pub use contribution::ImplicatedGroups;
pub use e_process::{EProcess, LeadingEvidence};
pub use fair_set::FairSet;
pub use family::{Contenders, Family, FamilyBound, log_average};
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
