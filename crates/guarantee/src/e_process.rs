//! The e-process: evidence against fairness that grows block by block. Learners bet on each block with what they know
//! from the blocks before it. The cost of a block is that of the groups with trials in it, times the number of learners.

use serde::{Deserialize, Serialize};

use crate::block::{OpenBlock, TrialTotals};
use crate::contribution::{ImplicatedGroups, implicated, implicated_with};
use crate::ever;
use crate::fairness::{FairnessEvidence, Recovery};
use crate::knowledge::RecentRate;
use crate::learner::{BetScratch, Learner};
use crate::restarts;
use crate::{DecayedTotals, ErrorControl, Hypothesis, Reference, StepUnit};

/// Margin by which logarithms must differ, so that rounding does not decide.
pub(crate) const ROUNDING: f64 = 1e-9;

/// E-process against the hypothesis that groups are treated fairly. Groups are numbered from 0 in order of arrival. Its
/// state depends on the trials and on the looks of a detector with [`StepUnit::Look`], and on nothing else.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EProcess {
    open: OpenBlock,
    /// Totals of each group in all closed blocks.
    closed: Vec<TrialTotals>,
    blocks: u64,
    /// Number of steps that have begun.
    steps: u64,
    /// Whether a block has been closed since the last look.
    is_new: bool,
    recent: RecentRate,
    learners: Vec<Learner>,
    fairness: FairnessEvidence,
    /// Evidence that the groups of an alarm are treated fairly again.
    recovery: Option<Recovery>,
    #[serde(with = "crate::written")]
    log_e_value: f64,
    /// Maximum of `log_e_value` over all looks.
    #[serde(with = "crate::written")]
    log_maximum: f64,
    #[serde(skip)]
    scratch: BetScratch,
}

/// The evidence that an alarm rests on: that of one belief of one learner, the one with the largest e-value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeadingEvidence {
    /// Number of the first block that the learner bet on.
    pub first_block: u64,
    /// Number of blocks that it bet on.
    pub blocks: u64,
    /// The groups that it is about.
    pub groups: ImplicatedGroups,
}

impl EProcess {
    /// Counts a trial of a group, with a value of 0 or 1, or between them, at a time in nanoseconds, no earlier than the
    /// trial before. It must be final: it is never revised. Returns the number of its block, from 1.
    ///
    /// Blocks are evaluated as soon as they are closed: by their last trial, or by a trial that is too late for them.
    /// Neither depends on outcomes.
    pub fn count(&mut self, hypothesis: &Hypothesis, group: usize, value: f64, at: i64) -> u64 {
        if self.open.ends_before(at, hypothesis) {
            self.close_block(hypothesis);
        }
        if self.closed.len() <= group {
            self.closed.resize(group + 1, TrialTotals::default());
        }
        self.open.push(group, value, at);
        let number = self.blocks + 1;
        if self.open.is_full(hypothesis) {
            self.close_block(hypothesis);
        }
        number
    }

    fn close_block(&mut self, hypothesis: &Hypothesis) {
        let block = self.open.groups();
        let trials = self.open.trials() as f64;
        let sum: f64 = block.iter().map(|(_, totals)| totals.sum).sum();
        let begins_step = match hypothesis.control {
            ErrorControl::Detector { step: StepUnit::Look, .. } => !self.is_new,
            _ => true,
        };
        self.is_new = true;
        if begins_step {
            self.steps += 1;
            if hypothesis.is_detector() {
                restarts::begin_step(&mut self.learners, self.steps, self.blocks);
            } else if ever::begins_learner(self.blocks) {
                self.learners.push(Learner::new(self.steps, self.blocks));
            }
        }
        let scratch = &mut self.scratch;
        let trials_of = |group: usize| {
            let open = block.iter().find(|(known, _)| *known == group).map_or(0, |(_, open)| open.trials);
            self.closed.get(group).map_or(0, |closed| closed.trials) + open
        };
        let has_reference = match hypothesis.reference {
            Reference::None => true,
            Reference::Group(reference) => trials_of(reference) >= hypothesis.min_trials.max(1),
            Reference::Absent => false,
        };
        scratch.weights.clear();
        // A group that is not compared is not bet on.
        let is_compared = |group: usize| has_reference && trials_of(group) >= hypothesis.min_trials;
        let weight = |(group, totals): &(usize, TrialTotals)| match is_compared(*group) {
            true => totals.trials as f64,
            false => 0.0,
        };
        scratch.weights.extend(block.iter().map(weight));
        for learner in &mut self.learners {
            learner.evaluate(hypothesis, &self.open, &self.recent, scratch);
        }
        self.fairness.evaluate(hypothesis, block, &self.recent, scratch);
        if let Some(recovery) = &mut self.recovery {
            recovery.evaluate(hypothesis, block, &self.recent, scratch);
        }
        self.recent.learn(trials, sum);
        for (group, totals) in block {
            self.closed[*group].add(*totals);
        }
        self.blocks += 1;
        self.open.clear();
        self.log_e_value = match hypothesis.control {
            ErrorControl::Ever => ever::log_e_value(&self.learners, hypothesis),
            ErrorControl::Detector { .. } => restarts::log_e_value(&self.learners, hypothesis),
        };
    }

    /// Looks at the evidence, which must happen before an alarm is raised or cleared. Returns whether there is new
    /// evidence since the last look.
    pub fn look(&mut self) -> bool {
        self.log_maximum = self.log_maximum.max(self.log_e_value);
        std::mem::take(&mut self.is_new)
    }

    /// The evidence of the learner and the belief with the largest e-value. `order` has the number of every group; of
    /// equal contributions the first group in it is chosen. `None` before the first block.
    pub fn leading(&self, hypothesis: &Hypothesis, order: &[usize]) -> Option<LeadingEvidence> {
        let (learner, belief) = self.leader(hypothesis)?;
        let contributions = learner.contributions(belief);
        let groups = match hypothesis.reference {
            _ if hypothesis.pair_tolerance().is_some() => learner.pair_bets().implicated(order),
            Reference::Group(reference) => implicated_with(contributions, reference, order),
            Reference::None | Reference::Absent => implicated(contributions, hypothesis.fair, order),
        };
        Some(LeadingEvidence { first_block: learner.first_block, blocks: learner.blocks, groups })
    }

    /// The learner and the belief with the largest e-value; of equal ones the first.
    fn leader(&self, hypothesis: &Hypothesis) -> Option<(&Learner, usize)> {
        let all = self.learners.iter().flat_map(|learner| {
            learner
                .log_e_values(hypothesis)
                .iter()
                .enumerate()
                .map(move |(index, log)| (learner, index, *log))
        });
        let most = all.reduce(|most, one| if one.2 > most.2 + ROUNDING { one } else { most })?;
        Some((most.0, most.1))
    }

    /// The trials of a group that the leading learner has bet on, as of the last closed block.
    pub fn leading_totals(&self, hypothesis: &Hypothesis, group: usize) -> TrialTotals {
        self.leader(hypothesis).map(|(learner, _)| learner.totals(group)).unwrap_or_default()
    }

    /// Begins to collect evidence that these groups are treated fairly again.
    pub fn await_recovery(&mut self, groups: ImplicatedGroups) {
        self.recovery = Recovery::of(groups);
    }

    /// Whether there is enough evidence, since [`await_recovery`](Self::await_recovery), that the groups of the alarm are
    /// treated fairly again.
    pub fn has_recovered(&self) -> bool {
        self.recovery.as_ref().is_some_and(Recovery::is_complete)
    }

    /// The trials of a group since the evidence of [`has_recovered`](Self::has_recovered) began.
    pub fn recovered(&self, group: usize) -> TrialTotals {
        self.recovery.as_ref().map(|recovery| recovery.totals(group)).unwrap_or_default()
    }

    /// Resets the e-value to 1. What is known of the groups in all stays.
    pub fn restart(&mut self) {
        self.learners.clear();
        self.recovery = None;
        self.log_e_value = 0.0;
    }

    /// Whether the e-value exceeds the threshold by more than rounding can explain. An e-value of exactly the threshold
    /// must give the same verdict in every order of calculation. A sum over learners none of which has won anything is no
    /// evidence, however low the threshold.
    pub fn exceeds_threshold(&self, hypothesis: &Hypothesis) -> bool {
        let has_won = |learner: &Learner| learner.log_e_values(hypothesis).iter().any(|log| *log > ROUNDING);
        self.log_e_value > hypothesis.log_threshold() + ROUNDING && self.learners.iter().any(has_won)
    }

    /// Logarithm of the e-value: how many times likelier the outcomes are under what is believed than under the closest
    /// fair system, averaged over beliefs and beginnings; of a detector, summed over beginnings.
    pub fn log_e_value(&self) -> f64 {
        self.log_e_value
    }

    /// Logarithm of the largest e-value at any look.
    pub fn log_maximum(&self) -> f64 {
        self.log_maximum
    }

    /// Whether this can be the state of an e-process over so many groups; one that was read back may not be.
    pub fn is_valid(&self, groups: usize) -> bool {
        /// More than there can have been.
        const MOST: u64 = 1 << 48;
        let learners = self.learners.iter();
        self.closed.len() <= groups
            && self.closed.iter().all(TrialTotals::is_valid)
            && self.blocks < MOST
            && self.steps < MOST
            && self.open.is_valid(self.closed.len())
            && self.recent.is_valid()
            && self.fairness.is_valid()
            && learners.clone().all(|learner| learner.is_valid() && learner.start <= self.steps)
            && self.recovery.as_ref().is_none_or(Recovery::is_valid)
    }

    /// Number of closed blocks.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Totals of each group, including the open block.
    pub fn totals(&self) -> Vec<TrialTotals> {
        let mut all = self.closed.clone();
        self.open.groups().iter().for_each(|(group, open)| all[*group].add(*open));
        all
    }

    pub(crate) fn fairness(&self) -> &FairnessEvidence {
        &self.fairness
    }

    /// The totals of a group that the first learner knows: of a detector those of the oldest one.
    pub(crate) fn known(&self, group: usize) -> DecayedTotals {
        self.learners.first().map(|learner| learner.known(group)).unwrap_or_default()
    }
}

/// Logarithm of Σ exp of logarithms.
pub(crate) fn log_sum_exp(logs: impl Iterator<Item = f64> + Clone) -> f64 {
    let most = logs.clone().fold(f64::NEG_INFINITY, f64::max);
    if most.is_infinite() {
        return most;
    }
    most + logs.map(|log| exp_or_zero(log - most)).sum::<f64>().ln()
}

/// exp, or 0 where the result does not change a sum with a term of 1.
pub(crate) fn exp_or_zero(log: f64) -> f64 {
    const NEGLIGIBLE: f64 = -40.0;
    if log == 0.0 {
        1.0
    } else if log < NEGLIGIBLE {
        0.0
    } else {
        log.exp()
    }
}
