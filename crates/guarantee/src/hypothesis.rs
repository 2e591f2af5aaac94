//! What is tested, and how false alarms are controlled.

use serde::{Deserialize, Serialize};

use crate::knowledge::Belief;
use crate::{FairSet, TrialTotals};

/// How false alarms are controlled, which determines how evidence accumulates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum ErrorControl {
    /// The probability that a fair system ever raises an alarm is at most the level.
    Ever,
    /// The average number of steps until a fair system raises an alarm is at least 1 / level. Evidence is that of recent
    /// trials, so that a system that becomes unfair after years is detected soon.
    Detector {
        /// What a step is.
        step: StepUnit,
        /// Decay length in trials: after so many trials, earlier ones have less than half of the weight. `None`: learners
        /// forget nothing, but for beginning anew at every step.
        memory: Option<u64>,
    },
}

impl ErrorControl {
    /// Default number of trials in a block: few, so that rates hardly change within it; more for a detector that counts
    /// blocks.
    pub fn default_block(self) -> u64 {
        match self {
            ErrorControl::Ever | ErrorControl::Detector { step: StepUnit::Look, .. } => 8,
            ErrorControl::Detector { step: StepUnit::Block, .. } => 20,
        }
    }
}

/// The unit in which a detector counts the time between false alarms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepUnit {
    /// A block.
    Block,
    /// All blocks between two [looks](crate::EProcess::look).
    Look,
}

/// The null hypothesis that a system is fair, and how it is tested.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hypothesis {
    /// The rates that are fair.
    pub fair: FairSet,
    /// How false alarms are controlled.
    pub control: ErrorControl,
    /// α, or the share of it that this hypothesis has.
    pub level: f64,
    /// Number of trials in a block.
    pub block: u64,
    /// A block ends before a trial that is later than its first trial by more than this, in nanoseconds; but not before it
    /// has trials of two groups, without which it would be worth nothing.
    pub span: Option<i64>,
    /// Groups with fewer trials are not compared.
    pub min_trials: u64,
    /// 1 minus the simultaneous confidence of all [intervals](crate::TestResult::groups), and of the conclusion that a
    /// system is fair.
    pub miscoverage: f64,
    /// With which group the others are compared.
    pub reference: Reference,
    /// Whether values are numbers between 0 and 1 rather than 0 or 1. Differences of numbers are bet on in pairs.
    pub are_numbers: bool,
}

/// The group that every other group is compared with. Nothing is bet before it has enough trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// There is none: every group is compared with every other one.
    None,
    /// The group with this number.
    Group(usize),
    /// A group that has no trial yet, so that there is nothing to compare.
    Absent,
}

impl Hypothesis {
    /// A hypothesis with blocks of the [default](ErrorControl::default_block) size, however long they last, all groups
    /// compared.
    pub fn new(fair: FairSet, control: ErrorControl, level: f64) -> Hypothesis {
        let miscoverage = if control == ErrorControl::Ever { level } else { 0.05 };
        Hypothesis {
            fair,
            control,
            level,
            block: control.default_block(),
            span: None,
            min_trials: 0,
            miscoverage,
            reference: Reference::None,
            are_numbers: false,
        }
    }

    /// Logarithm of the e-value above which an alarm is raised.
    pub fn log_threshold(&self) -> f64 {
        -self.level.ln()
    }

    /// What learners bet on.
    pub(crate) fn beliefs(&self) -> &'static [Belief] {
        match (self.fair, self.control) {
            _ if self.pair_tolerance().is_some() => &[Belief::Pairs],
            (FairSet::Highest(_), _) => &[Belief::Bound],
            (_, ErrorControl::Ever) => &[Belief::Laplace, Belief::Pooled, Belief::Contrast],
            (_, ErrorControl::Detector { .. }) => &[Belief::Laplace, Belief::Pooled],
        }
    }

    /// The reverse information projection of the rates of the groups of a block; `false`, without a result, if they are
    /// fair already.
    pub(crate) fn project_into(
        &self,
        block: &[(usize, TrialTotals)],
        rates: &[f64],
        weights: &[f64],
        fair: &mut Vec<f64>,
    ) -> bool {
        match self.reference {
            Reference::None => self.fair.project_into(rates, weights, fair),
            Reference::Group(reference) => {
                let position = block.iter().position(|(group, _)| *group == reference);
                self.fair.project_around_into(rates, weights, position, fair)
            }
            Reference::Absent => false,
        }
    }

    /// Whether two groups are compared with each other.
    pub(crate) fn compares(&self, one: usize, other: usize) -> bool {
        one != other
            && match self.reference {
                Reference::None => true,
                Reference::Group(reference) => one == reference || other == reference,
                Reference::Absent => false,
            }
    }

    /// The tolerance, if differences of numbers are bet on in pairs.
    pub(crate) fn pair_tolerance(&self) -> Option<f64> {
        match self.fair {
            FairSet::Difference(tolerance) if self.are_numbers => Some(tolerance),
            _ => None,
        }
    }

    pub(crate) fn is_detector(&self) -> bool {
        self.control != ErrorControl::Ever
    }
}
