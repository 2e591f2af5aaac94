//! Recomputes e-values block by block: a second implementation of what `fairstream-guarantee` does, written
//! independently of it.

use std::collections::BTreeMap;

use fairstream_core::Time;

use super::WrongEvidence;
use super::bettor::{Bettor, Block, Recent, Share, Way};
use super::family::{EvidenceLook, Rejection, share};
use super::replay::{EvidenceEntry, RateRule, RecomputedAlarm, StratumEvidence};
use crate::judge::words;
use crate::{AlarmBasis, AlarmedGroup, Comparison, Every, Promise, Rule, compare_values};

/// Margin by which logarithms must differ, so that rounding does not decide.
const ROUNDING: f64 = 1e-9;

/// The factor of one block for the bettor that an alarm is about, recomputed.
#[derive(Clone, Debug)]
pub(super) struct BlockStep {
    pub(super) number: u64,
    pub(super) time: Time,
    pub(super) groups: Vec<GroupStep>,
    /// Logarithm of the factor of this block.
    pub(super) log_factor: f64,
    /// Logarithm of the e-value after this block.
    pub(super) log_evidence: f64,
}

#[derive(Clone, Debug)]
pub(super) struct GroupStep {
    pub(super) group: String,
    pub(super) trials: f64,
    /// Number of positive trials, or the rescaled sum of their values; between 0 and `trials`.
    pub(super) positives: f64,
    pub(super) estimate: f64,
    pub(super) fair: f64,
}

/// The e-value of one way of estimating, from one block on, and its weight in the whole.
#[derive(Clone, Debug)]
pub(super) struct BettorPart {
    pub(super) first_block: u64,
    pub(super) way: Way,
    pub(super) log_weight: f64,
    pub(super) log_evidence: f64,
}

/// A group that an alarm is about, and the logarithm of the factor by which it contributed to the e-value.
#[derive(Clone, Debug)]
pub(super) struct NamedGroup {
    pub(super) values: String,
    pub(super) is_high: bool,
    pub(super) log_factor: f64,
}

/// The recomputation of one stratum.
struct Recount<'a> {
    rule: &'a Rule,
    blocks: Vec<Block<'a>>,
    open: Block<'a>,
    /// The groups in order of arrival.
    arrived: Vec<&'a str>,
    /// When the first trial of the open block became final.
    began: i64,
    /// Trials of each group in closed blocks.
    closed: BTreeMap<&'a str, f64>,
    recent: Recent,
    bettors: Vec<Bettor<'a>>,
    steps: u64,
    /// Whether a block has been closed since the last check.
    is_new: bool,
    /// The bets, since an alarm, that its groups are treated fairly again.
    recovery: Option<RecoveryBets<'a>>,
    log_evidence: f64,
}

/// Bets since an alarm against each order of its groups.
struct RecoveryBets<'a> {
    high: &'a str,
    low: Option<&'a str>,
    /// For each order the bets since its e-value was last 1, and its logarithm.
    sides: [(Bettor<'a>, f64); 2],
}

impl StratumEvidence {
    /// The alarms of a detector, with the e-value above which it raises one.
    pub(super) fn by_detector(
        &self,
        rate_rule: &RateRule,
        name: &str,
        threshold: f64,
    ) -> Result<Vec<RecomputedAlarm>, WrongEvidence> {
        let (mut alarms, mut stands) = (Vec::new(), false);
        self.recount(&rate_rule.rule, u64::MAX, |recount, row| {
            let has_won = recount.parts().iter().any(|part| part.log_evidence > ROUNDING);
            let above = has_won && recount.log_evidence > threshold.ln() + ROUNDING;
            if !stands && above {
                stands = true;
                let at = (row.check, row.time);
                alarms.push(self.raise(recount, rate_rule, name, at, threshold.ln()));
            } else if stands && recount.has_recovered() {
                stands = false;
                recount.bettors.clear();
                recount.recovery = None;
                recount.log_evidence = 0.0;
            }
        })?;
        Ok(alarms)
    }

    /// The e-value at each check with new evidence.
    pub(super) fn looks(&self, rule: &Rule) -> Result<Vec<EvidenceLook>, WrongEvidence> {
        let mut looks = Vec::new();
        self.recount(rule, u64::MAX, |recount, row| {
            let EvidenceEntry { row, check, time, .. } = *row;
            looks.push(EvidenceLook { row, check, time, log_evidence: recount.log_evidence });
        })?;
        Ok(looks)
    }

    /// The alarm that is raised because its hypothesis is rejected.
    pub(super) fn by_rejection(
        &self,
        rate_rule: &RateRule,
        name: &str,
        rejection: Rejection,
    ) -> Result<RecomputedAlarm, WrongEvidence> {
        let Rejection { check, time, log_threshold } = rejection;
        let mut recount = self.recount(&rate_rule.rule, check, |_, _| {})?;
        Ok(self.raise(&mut recount, rate_rule, name, (check, time), log_threshold))
    }

    /// Recomputes the e-values block by block up to a check, and looks at them after every check with new evidence.
    fn recount<'a>(
        &'a self,
        rule: &'a Rule,
        last: u64,
        mut look: impl FnMut(&mut Recount<'a>, &'a EvidenceEntry),
    ) -> Result<Recount<'a>, WrongEvidence> {
        let mut recount = Recount {
            rule,
            blocks: Vec::new(),
            open: Block::default(),
            arrived: Vec::new(),
            began: 0,
            closed: BTreeMap::new(),
            recent: Recent::default(),
            bettors: Vec::new(),
            steps: 0,
            is_new: false,
            recovery: None,
            log_evidence: 0.0,
        };
        let mut rows = self.rows.iter().take_while(|row| row.check <= last).peekable();
        while let Some(row) = rows.next() {
            if let Some(trial) = &row.trial {
                let number = recount.count(&row.group, trial.value, trial.ended, row.time);
                if trial.block != Some(number) {
                    let at = rule.when(Time(trial.ended));
                    return Err(WrongEvidence::WrongBlock { found: trial.block, number, at });
                }
            }
            if rows.peek().is_none_or(|next| next.check != row.check) && std::mem::take(&mut recount.is_new) {
                look(&mut recount, row);
            }
        }
        Ok(recount)
    }

    /// The alarm that a check raises.
    fn raise<'a>(
        &'a self,
        recount: &mut Recount<'a>,
        rate_rule: &RateRule,
        name: &str,
        (check, time): (u64, Time),
        log_threshold: f64,
    ) -> RecomputedAlarm {
        let rule = recount.rule;
        let groups = self.counted(rate_rule, check, time);
        let parts = recount.parts();
        let leader = recount.leader();
        let (first_block, blocks, named) = match leader {
            Some((index, way)) => {
                let bettor = &recount.bettors[index];
                let named = match way {
                    Way::Pairs => best_pair(bettor),
                    way => most_credited(rule, bettor.shares(way)),
                };
                (bettor.first_block, bettor.blocks, named)
            }
            None => (1, 0, Vec::new()),
        };
        let is_late = recount.is_detector() || first_block > 1;
        let (low, width) = range(rule);
        let counts = |named: &NamedGroup| {
            let (trials, sum) = match (is_late, leader) {
                (true, Some((index, _))) => {
                    let (trials, sum) = recount.bettors[index].counted(&named.values);
                    (trials, low * trials + sum * width)
                }
                _ => groups
                    .iter()
                    .find(|(group, _)| group.0 == named.values)
                    .map_or((0.0, 0.0), |(_, counts)| (counts.denominator as f64, counts.numerator)),
            };
            let share = (trials > 0.0).then(|| sum / trials);
            AlarmedGroup { values: named.values.clone(), numerator: sum, denominator: trials as u64, share }
        };
        let mut alarmed: Vec<AlarmedGroup> = named.iter().map(counts).collect();
        let gap = distance(rule, &mut alarmed);
        let basis = AlarmBasis {
            since: time,
            message: String::new(),
            groups: alarmed,
            blocks: is_late.then_some(blocks),
            gap,
            tolerance: rule.tolerance,
            log_e_value: Some(recount.log_evidence),
            log_threshold: Some(log_threshold),
            log_p_value: None,
            recorded: None,
        };
        let steps = match leader {
            Some((_, way)) => steps_of(rule, &recount.blocks, first_block, way),
            None => Vec::new(),
        };
        let side = |is_high: bool| {
            let found = named.iter().find(|named| named.is_high == is_high)?;
            self.rows.iter().map(|row| row.group.as_str()).find(|group| *group == found.values)
        };
        let (high, low) = (side(true), side(false));
        recount.recovery = high.map(|high| RecoveryBets {
            high,
            low,
            sides: [(Bettor::new(0, 1), 0.0), (Bettor::new(0, 1), 0.0)],
        });
        RecomputedAlarm {
            time,
            message: words::raised_by_evidence(rule, &rule.rates[rate_rule.rate], name, &basis),
            groups,
            blocks: steps,
            parts,
            leader: leader.map(|(_, way)| (first_block, way)),
            named,
            log_evidence: recount.log_evidence,
            log_threshold,
            check,
            first_block: Some(if is_late { first_block } else { 1 }),
        }
    }
}

impl<'a> Recount<'a> {
    fn is_detector(&self) -> bool {
        self.rule.guarantee.is_some_and(|guarantee| matches!(guarantee.promise, Promise::Every { .. }))
    }

    /// Whether a step of a detector is what comes between two checks, instead of a block.
    fn steps_are_checks(&self) -> bool {
        let promise = self.rule.guarantee.map(|guarantee| guarantee.promise);
        matches!(promise, Some(Promise::Every { every: Every::Time(_), .. }))
    }

    fn memory(&self) -> Option<f64> {
        match self.rule.guarantee?.promise {
            Promise::Every { memory, .. } => memory.map(|memory| memory as f64),
            Promise::Ever(_) | Promise::Discoveries(_) => None,
        }
    }

    /// Counts a trial, and returns the number of its block.
    fn count(&mut self, group: &'a str, value: f64, ended: i64, time: Time) -> u64 {
        let (size, span) = self.rule.guarantee.map_or((1, None), |of| (of.block, of.block_span));
        let trials: f64 = self.open.groups.iter().map(|(_, share)| share.trials).sum();
        let enough = if self.rule.comparison == Comparison::Highest { 1 } else { 2 };
        let span = span.filter(|_| !self.rule.by_rows);
        if span.is_some_and(|span| i128::from(ended) - i128::from(self.began) > span.as_nanos() as i128)
            && self.open.groups.len() >= enough
        {
            self.close();
        }
        if self.open.groups.is_empty() {
            self.began = ended;
        }
        let (low, width) = range(self.rule);
        let value = ((value - low) / width).clamp(0.0, 1.0);
        let number = self.blocks.len() as u64 + 1;
        let arrived = self.arrived.iter().position(|known| *known == group).unwrap_or_else(|| {
            self.arrived.push(group);
            self.arrived.len() - 1
        });
        self.open.values.push((group, arrived, value));
        self.open.time = time;
        self.open.number = number;
        match self.open.groups.iter_mut().find(|(known, _)| *known == group) {
            Some((_, share)) => {
                *share = Share { trials: share.trials + 1.0, positives: share.positives + value }
            }
            None => self.open.groups.push((group, Share { trials: 1.0, positives: value })),
        }
        let trials_now: f64 = self.open.groups.iter().map(|(_, share)| share.trials).sum();
        debug_assert!(trials_now <= trials + 1.0);
        if trials_now >= size as f64 {
            self.close();
        }
        number
    }

    /// Evaluates the open block.
    fn close(&mut self) {
        let mut block = std::mem::take(&mut self.open);
        for (group, share) in &block.groups {
            let all = self.closed.entry(group).or_default();
            *all += share.trials;
            if *all < self.rule.min_trials as f64 {
                block.left_out.push(group);
            }
        }
        if let Some(reference) = &self.rule.reference {
            let trials = self.closed.get(reference.as_str()).copied().unwrap_or_default();
            if trials < self.rule.min_trials.max(1) as f64 {
                // There is nothing yet that others could be compared with.
                block.left_out = block.groups.iter().map(|(group, _)| *group).collect();
            }
        }
        let blocks = self.blocks.len() as u64;
        if !(self.steps_are_checks() && self.is_new) {
            self.steps += 1;
            if self.is_detector() {
                let step = self.steps;
                self.bettors.retain(|bettor| step - bettor.step < lifetime(bettor.step));
                self.bettors.push(Bettor::new(step, blocks + 1));
            } else if blocks == 0 || (0..60).any(|doublings| blocks == 5 << doublings) {
                self.bettors.push(Bettor::new(self.steps, blocks + 1));
            }
        }
        self.is_new = true;
        let memory = self.memory();
        for bettor in &mut self.bettors {
            for way in ways(self.rule) {
                bettor.bet(self.rule, *way, &block, &self.recent);
            }
            bettor.learn(&block, memory);
        }
        if let Some(recovery) = &mut self.recovery {
            recovery.bet(self.rule, &block, &self.recent);
        }
        self.recent.learn(&block);
        self.blocks.push(block);
        let parts = self.parts();
        let terms: Vec<f64> = parts.iter().map(|part| part.log_weight + part.log_evidence).collect();
        let stake = match self.is_detector() {
            true => f64::NEG_INFINITY,
            false => (0.25 / self.bettors.len().max(1) as f64).ln(),
        };
        let most = terms.iter().copied().fold(stake, f64::max);
        self.log_evidence = if most.is_infinite() {
            most
        } else {
            let sum: f64 = terms.iter().chain([&stake]).map(|term| (term - most).exp()).sum();
            most + sum.ln()
        };
    }

    /// The parts of the e-value: that of each bettor and each of its ways of estimating.
    fn parts(&self) -> Vec<BettorPart> {
        let ways = ways(self.rule);
        let mut parts = Vec::new();
        for (index, bettor) in self.bettors.iter().enumerate() {
            let weight = match index {
                _ if self.is_detector() => 1.0,
                0 => 0.75,
                index => 0.25 / (index as f64 * (index as f64 + 1.0)),
            };
            for way in ways {
                parts.push(BettorPart {
                    first_block: bettor.first_block,
                    way: *way,
                    log_weight: (weight / ways.len() as f64).ln(),
                    log_evidence: bettor.log_evidence(*way),
                });
            }
        }
        parts
    }

    /// The bettor and the way with the largest e-value; of equal ones the first.
    fn leader(&self) -> Option<(usize, Way)> {
        let mut found: Option<(usize, Way, f64)> = None;
        for (index, bettor) in self.bettors.iter().enumerate() {
            for way in ways(self.rule) {
                let log = bettor.log_evidence(*way);
                if found.is_none_or(|(_, _, most)| log > most + ROUNDING) {
                    found = Some((index, *way, log));
                }
            }
        }
        found.map(|(index, way, _)| (index, way))
    }

    /// Whether both orders of the groups of the alarm have been refuted.
    fn has_recovered(&self) -> bool {
        let enough = 2000.0_f64.ln();
        self.is_detector()
            && self
                .recovery
                .as_ref()
                .is_some_and(|recovery| recovery.sides.iter().all(|(_, log)| *log >= enough))
    }
}

impl<'a> RecoveryBets<'a> {
    fn bet(&mut self, rule: &Rule, block: &Block<'a>, recent: &Recent) {
        for (side, (bettor, log)) in self.sides.iter_mut().enumerate() {
            let factors = bettor.against_orders(rule, block, recent, self.high, self.low);
            *log += factors.map_or(0.0, |factors| factors[side]);
            bettor.learn(block, None);
            if *log <= 0.0 {
                (*bettor, *log) = (Bettor::new(0, 1), 0.0);
            }
        }
    }
}

/// How long a detector keeps the bettor that began with a step, in steps.
fn lifetime(step: u64) -> u64 {
    let mut lifetime = 8;
    let mut step = step;
    while step.is_multiple_of(2) && lifetime < 8 << 13 {
        (step, lifetime) = (step / 2, lifetime * 2);
    }
    lifetime
}

/// The ways of estimating that a rule bets on.
fn ways(rule: &Rule) -> &'static [Way] {
    match (rule.comparison, rule.guarantee.map(|guarantee| guarantee.promise)) {
        (Comparison::Difference, _) if rule.range.is_some() => &[Way::Pairs],
        (Comparison::Highest, _) => &[Way::TowardsBound],
        (_, Some(Promise::Every { .. })) => &[Way::Own, Way::TowardsAll],
        _ => &[Way::Own, Way::TowardsAll, Way::WithinBlocks],
    }
}

/// Every step of one bettor and one way, from the block on with which it began.
fn steps_of(rule: &Rule, blocks: &[Block<'_>], first: u64, way: Way) -> Vec<BlockStep> {
    let memory = match rule.guarantee.map(|guarantee| guarantee.promise) {
        Some(Promise::Every { memory, .. }) => memory.map(|memory| memory as f64),
        _ => None,
    };
    let (mut bettor, mut recent) = (Bettor::new(1, first), Recent::default());
    let mut steps = Vec::new();
    for block in blocks {
        if block.number >= first {
            let before = bettor.log_evidence(way);
            let mut groups = bettor.bet(rule, way, block, &recent);
            groups.sort_by(|one, other| compare_values(&one.group, &other.group));
            bettor.learn(block, memory);
            let log_evidence = bettor.log_evidence(way);
            steps.push(BlockStep {
                number: block.number,
                time: block.time,
                groups,
                log_factor: log_evidence - before,
                log_evidence,
            });
        }
        recent.learn(block);
    }
    steps
}

/// The pair of groups with the largest e-value; of equal ones the first, in the order of groups.
fn best_pair(bettor: &Bettor<'_>) -> Vec<NamedGroup> {
    let mut pairs: Vec<(&str, &str, f64)> = bettor.pairs().collect();
    pairs.sort_by(|one, other| compare_values(one.0, other.0).then_with(|| compare_values(one.1, other.1)));
    let mut found: Option<(&str, &str, f64)> = None;
    for pair in pairs {
        if found.is_none_or(|(.., most)| pair.2 > most + ROUNDING * most.abs().max(1.0)) {
            found = Some(pair);
        }
    }
    let named = |(high, low, log_factor): (&str, &str, f64)| {
        let of = |values: &str, is_high| NamedGroup { values: values.to_owned(), is_high, log_factor };
        vec![of(high, true), of(low, false)]
    };
    found.filter(|(.., log)| *log > 0.0).map_or_else(Vec::new, named)
}

/// The two groups that contributed most together, one whose estimate was too high and one whose was too low; or the one
/// that contributed most, if there is only an upper bound. By comparing all pairs. Of equal sums the first, in the order
/// of groups.
fn most_credited<'a>(
    rule: &Rule,
    shares: impl Iterator<Item = (&'a str, [Option<f64>; 2])>,
) -> Vec<NamedGroup> {
    let mut sorted: Vec<(&str, [Option<f64>; 2])> = shares.collect();
    sorted.sort_by(|one, other| compare_values(one.0, other.0));
    let named =
        |values: &str, is_high, log_factor| NamedGroup { values: values.to_owned(), is_high, log_factor };
    let side = |side: usize| -> Vec<(&str, f64)> {
        sorted.iter().filter_map(|(group, sides)| Some((*group, sides[side]?))).collect()
    };
    let (highs, lows) = (side(0), side(1));
    let is_most = |sum: f64, most: f64| sum == most || sum > most - ROUNDING * most.abs().max(1.0);
    if rule.comparison == Comparison::Highest {
        let most = highs.iter().map(|(_, log)| *log).fold(f64::NEG_INFINITY, f64::max);
        let found = highs.iter().find(|(_, log)| is_most(*log, most));
        return found.map(|(group, log)| named(group, true, *log)).into_iter().collect();
    }
    if let Some(reference) = &rule.reference {
        return most_credited_beside(reference, &sorted);
    }
    let pairs = || {
        let all = highs.iter().flat_map(|high| lows.iter().map(move |low| (high, low)));
        all.filter(|(high, low)| high.0 != low.0)
    };
    let most = pairs().map(|(high, low)| high.1 + low.1).fold(f64::NEG_INFINITY, f64::max);
    let found = pairs().find(|(high, low)| is_most(high.1 + low.1, most));
    found.map_or_else(Vec::new, |(high, low)| vec![named(high.0, true, high.1), named(low.0, false, low.1)])
}

/// The pair of the reference group and another group that contributed most. A reference that was never too high or too
/// low did not contribute.
fn most_credited_beside(reference: &str, sorted: &[(&str, [Option<f64>; 2])]) -> Vec<NamedGroup> {
    let own = sorted.iter().find(|(group, _)| *group == reference).map(|(_, sides)| *sides);
    let own = own.unwrap_or_default();
    let mut pairs: Vec<[NamedGroup; 2]> = Vec::new();
    for is_high in [true, false] {
        for (group, sides) in sorted.iter().filter(|(group, _)| *group != reference) {
            let (of_group, of_reference) = if is_high { (sides[0], own[1]) } else { (sides[1], own[0]) };
            let Some(log_factor) = of_group else { continue };
            let other = NamedGroup { values: (*group).to_owned(), is_high, log_factor };
            let log_factor = of_reference.unwrap_or_default();
            let own = NamedGroup { values: reference.to_owned(), is_high: !is_high, log_factor };
            pairs.push(if is_high { [other, own] } else { [own, other] });
        }
    }
    let sum = |pair: &[NamedGroup; 2]| pair.iter().map(|group| group.log_factor).sum::<f64>();
    let most = pairs.iter().map(sum).fold(f64::NEG_INFINITY, f64::max);
    let is_most = |sum: f64| sum == most || sum > most - ROUNDING * most.abs().max(1.0);
    pairs.into_iter().find(|pair| is_most(sum(pair))).map_or_else(Vec::new, Vec::from)
}

/// How far apart the shares are, in the terms of the rule. Puts the higher share first.
fn distance(rule: &Rule, groups: &mut [AlarmedGroup]) -> f64 {
    let shares: Vec<f64> = groups.iter().map(|group| group.share.unwrap_or_default()).collect();
    if let [first, second] = shares.as_slice()
        && first < second
    {
        groups.swap(0, 1);
    }
    let most = shares.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
    match rule.comparison {
        Comparison::Difference if groups.len() > 1 => most - least,
        Comparison::Ratio if groups.len() > 1 && most > 0.0 => least / most,
        Comparison::Ratio => 1.0,
        Comparison::Highest if !groups.is_empty() => most,
        _ => 0.0,
    }
}

/// The e-value above which a detector raises an alarm in the stratum with this rank; `None` if it is not tested, or there is
/// no detector.
pub(super) fn needed_by_detector(rule: &Rule, rank: usize) -> Option<f64> {
    let share = share(rule, rank)?;
    match rule.guarantee?.promise {
        Promise::Every { every: Every::Trials(_), blocks, .. } => Some(blocks * rule.comparisons as f64),
        Promise::Every { blocks, .. } => Some(blocks / share),
        Promise::Ever(_) | Promise::Discoveries(_) => None,
    }
}

/// The lower end and the width of the range of numbers.
fn range(rule: &Rule) -> (f64, f64) {
    rule.range.map_or((0.0, 1.0), |(low, high)| (low, high - low))
}
