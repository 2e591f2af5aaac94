//! Rules for an alarm: the paper's, ours, and other published ones. Each is checked after every decision.

use fairstream_guarantee::{EProcess, ErrorControl, FairSet, Hypothesis};

use super::bounds::Oracle;
use super::systems::{Decision, HOUR};

/// The tolerance of all rules.
const TOLERANCE: f64 = 0.1;
/// The level of the rules that have a guarantee.
pub(super) const LEVEL: f64 = 0.05;

/// A rule for an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Map,
    Block,
    Betting,
    Safe,
    NormalMixture,
    Hoeffding,
}

impl Rule {
    pub(super) const ALL: [Rule; 6] =
        [Rule::Map, Rule::Block, Rule::Betting, Rule::Safe, Rule::NormalMixture, Rule::Hoeffding];

    pub(super) fn name(self) -> &'static str {
        match self {
            Rule::Map => "MAP, κ = 24 (`rule = \"map\"`)",
            Rule::Block => "block e-process (`guarantee`)",
            Rule::Betting => "betting on pairs, Newton steps (Chugg et al. 2023)",
            Rule::Safe => "safe test of two proportions (Turner, Ly and Grünwald 2024)",
            Rule::NormalMixture => "normal-mixture confidence sequences (Howard et al. 2021)",
            Rule::Hoeffding => "Hoeffding intervals, for one look",
        }
    }

    pub(super) fn begin(self, fair: FairSet) -> Watch {
        match self {
            Rule::Map => Watch::Counts { counts: [(24.0 / 2.0, 24.0); 2], radius: |_| 0.0 },
            Rule::Block => Watch::block(guaranteed(fair)),
            Rule::Betting => {
                Watch::Betting { waiting: [Vec::new(), Vec::new()], sides: [Side::default(); 2] }
            }
            Rule::Safe => Watch::Safe {
                fair,
                waiting: [Vec::new(), Vec::new()],
                seen: [(0.0, 0.0); 2],
                log_wealth: 0.0,
            },
            Rule::NormalMixture => Watch::Counts { counts: [(0.0, 0.0); 2], radius: normal_mixture },
            Rule::Hoeffding => Watch::Counts { counts: [(0.0, 0.0); 2], radius: hoeffding },
        }
    }
}

/// The hypothesis of `guarantee = { false_alarms = 0.05 }`.
pub(super) fn guaranteed(fair: FairSet) -> Hypothesis {
    Hypothesis { span: Some((2.0 * HOUR) as i64), ..Hypothesis::new(fair, ErrorControl::Ever, LEVEL) }
}

/// Half the width of an interval that is valid for one check, for each of two groups.
fn hoeffding(trials: f64) -> f64 {
    ((4.0 / LEVEL).ln() / (2.0 * trials)).sqrt()
}

/// Half the width of an interval that is valid at all times: the normal mixture for a variance of at most 1/4,
/// tightest around 500 trials.
fn normal_mixture(trials: f64) -> f64 {
    let (variance, level) = (trials / 4.0, LEVEL / 2.0);
    let tuned = 125.0 / (2.0 * (1.0 / level).ln() + (1.0 + 2.0 * (1.0 / level).ln()).ln());
    ((variance + tuned) * ((variance + tuned) / (tuned * level * level)).ln()).sqrt() / trials
}

/// The state of a rule during a run.
pub(super) enum Watch {
    Block {
        hypothesis: Hypothesis,
        e_process: Box<EProcess>,
    },
    /// Positives and trials of each group, and the half width of an interval by the number of trials.
    Counts {
        counts: [(f64, f64); 2],
        radius: fn(f64) -> f64,
    },
    Betting {
        waiting: [Vec<f64>; 2],
        sides: [Side; 2],
    },
    /// Blocks of one decision of each group, with beta priors.
    Safe {
        fair: FairSet,
        waiting: [Vec<f64>; 2],
        /// Positives and trials of each group in earlier blocks.
        seen: [(f64, f64); 2],
        log_wealth: f64,
    },
    Oracle(Oracle),
}

/// A bet that the rate of one group exceeds the rate of the other by more than the tolerance.
#[derive(Clone, Copy, Default)]
pub(super) struct Side {
    log_wealth: f64,
    bet: f64,
    squares: f64,
}

impl Watch {
    pub(super) fn block(hypothesis: Hypothesis) -> Watch {
        Watch::Block { hypothesis, e_process: Box::default() }
    }

    /// Updates the state with a decision. Returns whether there is an alarm.
    pub(super) fn step(&mut self, decision: Decision) -> bool {
        let Decision { group, value, time } = decision;
        match self {
            Watch::Block { hypothesis, e_process } => {
                e_process.count(hypothesis, group, value, time);
                e_process.look() && e_process.exceeds_threshold(hypothesis)
            }
            Watch::Counts { counts, radius } => {
                let (positives, trials) = &mut counts[group];
                (*positives, *trials) = (*positives + value, *trials + 1.0);
                let [(one, of_one), (other, of_other)] = *counts;
                if of_one == 0.0 || of_other == 0.0 {
                    return false;
                }
                (one / of_one - other / of_other).abs() - radius(of_one) - radius(of_other) > TOLERANCE
            }
            Watch::Betting { waiting, sides } => {
                let Some([one, other]) = next_pair(waiting, group, value) else { return false };
                let gains = [one - other - TOLERANCE, other - one - TOLERANCE];
                sides.iter_mut().zip(gains).any(|(side, gain)| side.bet(gain) >= (2.0 / LEVEL).ln())
            }
            Watch::Safe { fair, waiting, seen, log_wealth } => {
                let Some(pair) = next_pair(waiting, group, value) else { return false };
                // The prior that its authors recommend.
                const PRIOR: f64 = 0.18;
                let rates = seen.map(|(positives, trials)| (positives + PRIOR) / (trials + 2.0 * PRIOR));
                let closest = fair.project(&rates, &[1.0, 1.0]);
                for ((value, (rate, closest)), (positives, trials)) in
                    pair.into_iter().zip(rates.into_iter().zip(closest)).zip(seen)
                {
                    let of = |rate: f64| if value > 0.0 { rate } else { 1.0 - rate };
                    *log_wealth += (of(rate) / of(closest)).ln();
                    (*positives, *trials) = (*positives + value, *trials + 1.0);
                }
                *log_wealth >= -LEVEL.ln()
            }
            Watch::Oracle(oracle) => oracle.step(group, value),
        }
    }
}

/// Adds a value of a group. Returns the next pair of one value of each group, if there is one.
fn next_pair(waiting: &mut [Vec<f64>; 2], group: usize, value: f64) -> Option<[f64; 2]> {
    waiting[group].push(value);
    let is_pair = waiting.iter().all(|values| !values.is_empty());
    is_pair.then(|| [waiting[0].remove(0), waiting[1].remove(0)])
}

impl Side {
    /// Bets, and updates the stake by an online Newton step.
    fn bet(&mut self, gain: f64) -> f64 {
        let Side { log_wealth, bet, squares } = self;
        *log_wealth += (*bet * gain).ln_1p();
        let slope = gain / (1.0 + *bet * gain);
        *squares += slope * slope;
        *bet =
            (*bet + 2.0 / (2.0 - 3_f64.ln()) * slope / (1.0 + *squares)).clamp(0.0, 0.5 / (1.0 + TOLERANCE));
        *log_wealth
    }
}
