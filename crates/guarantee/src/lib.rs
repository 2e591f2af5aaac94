//! From counts to a verdict whose rate of false alarms is guaranteed, however long it runs and however often one
//! looks. Knows no stream, no file, no time: trials are counted in, block by block, and a verdict comes out.
//!
//! The hypothesis is that a system is fair: at all times the rates of its groups are in a [`FairSet`]. Trials are
//! cut into blocks by a rule that does not look at outcomes. For each block, with m trials and a positives in a group,
//!
//! 1. `q` is what the blocks before it say of the group: (positives + 1) / (trials + 2);
//! 2. `r` is the fair point nearest to `q`: the least Σ m · KL(q ‖ r);
//! 3. the evidence is multiplied by Π (q / r)^a · ((1 − q) / (1 − r))^(m − a).
//!
//! Under the hypothesis no such factor is above 1 on average, so the evidence is a nonnegative supermartingale, and
//! by Ville's inequality it ever reaches 1/α with a probability of at most α. Numbers between 0 and 1 take the place
//! of yes and no without any change: the factor is convex in them, so that yes and no are the worst case.
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

mod e_process;
mod fair_set;
mod interval;
mod test_result;

pub use e_process::{Bet, Block, EProcess, ErrorControl, Hypothesis, TrialTotals};
pub use fair_set::FairSet;
pub use interval::{Interval, interval};
pub use test_result::{Outcome, TestResult};

/// The share of α that the `index`-th (from 0) of an unknown number of hypotheses gets: 1/2, 1/6, 1/12, … They add up
/// to 1 however many there will be, so none has to be known beforehand.
pub fn alpha_share(index: u64) -> f64 {
    let place = index as f64 + 1.0;
    1.0 / (place * (place + 1.0))
}
