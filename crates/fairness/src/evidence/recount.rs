//! Alarms recomputed from evidence, by a calculation of its own: it shares no step with the judge or with
//! `fairstream-guarantee`, so that a mistake there shows here. Only the sentence is put into the same words.

use std::collections::{BTreeMap, BTreeSet};

use fairstream_core::{EventBatch, Time};
use serde::{Deserialize, Serialize};

use super::account::account;
use super::rows::EvidenceReader;
use super::{Row, TrialRow};
use crate::judge::{Finding, Found, words};
use crate::{Comparison, Counts, Promise, Rule};

/// How a rate is judged, as evidence says it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Charge {
    pub(super) rule: Rule,
    pub(super) rate: usize,
    /// γ is an expression: what it was is not in the evidence.
    pub(super) prior_varies: bool,
}

/// Evidence that does not lead to an alarm.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongEvidence {
    /// It cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// There is nothing of the metric.
    #[error("there is no evidence of `{0}`: it is of another run")]
    NoSuchMetric(String),
    /// The prior is an expression.
    #[error("the prior of `{0}` is an expression, and what it was is not among the evidence")]
    PriorVaries(String),
    /// No alarm comes of it at that time.
    #[error("no alarm of `{metric}` at {at} comes of this evidence: it is of another run, or not complete")]
    NoAlarm {
        /// The metric.
        metric: String,
        /// When there should be one.
        at: String,
    },
}

/// Evidence that has been read.
#[derive(Debug, Default)]
pub struct Recount {
    metrics: BTreeMap<String, Evidence>,
}

#[derive(Debug)]
struct Evidence {
    charge: Charge,
    strata: Vec<(String, Stratum)>,
    index: BTreeMap<String, usize>,
    /// Those that had a trial, in the order in which they had the first.
    places: Vec<usize>,
}

/// What was counted in a stratum, check by check.
#[derive(Debug, Default)]
struct Stratum {
    rows: Vec<Counted>,
}

#[derive(Debug)]
struct Counted {
    time: Time,
    check: u64,
    group: String,
    /// The value and the block; `None` if the group is only met.
    trial: Option<(f64, Option<u64>)>,
}

/// An alarm, recomputed.
#[derive(Clone, Debug, PartialEq)]
pub struct Recounted {
    /// What the alarm has to say by the evidence.
    pub message: String,
    /// The calculation, for people.
    pub account: String,
}

/// What an alarm comes of.
#[derive(Debug)]
pub(super) struct Alarm {
    pub(super) time: Time,
    pub(super) message: String,
    /// Counted up to then.
    pub(super) groups: BTreeMap<String, Counts>,
    /// The blocks that it comes of, if there is a guarantee.
    pub(super) blocks: Vec<Weighed>,
    /// What was needed.
    pub(super) threshold: f64,
}

/// A block, weighed.
#[derive(Clone, Debug)]
pub(super) struct Weighed {
    pub(super) number: u64,
    pub(super) time: Time,
    pub(super) groups: Vec<WeighedGroup>,
    pub(super) factor: f64,
    /// The logarithm of the evidence with it.
    pub(super) log_evidence: f64,
}

#[derive(Clone, Debug)]
pub(super) struct WeighedGroup {
    pub(super) group: String,
    pub(super) trials: f64,
    /// Between 0 and the trials.
    pub(super) positives: f64,
    pub(super) believed: f64,
    pub(super) fair: f64,
}

impl Recount {
    /// Takes rows, with the columns of [`EvidenceReader::wanted`].
    ///
    /// # Errors
    /// They are not rows of evidence.
    pub fn add(&mut self, batch: &EventBatch) -> Result<(), WrongEvidence> {
        for (time, row) in EvidenceReader::rows(batch).map_err(WrongEvidence::Unreadable)? {
            match row {
                Row::Rule { metric, rule } => {
                    let charge: Charge = serde_json::from_str(&rule).map_err(|error| {
                        WrongEvidence::Unreadable(format!("the rule of `{metric}`: {error}"))
                    })?;
                    let new =
                        Evidence { charge, strata: Vec::new(), index: BTreeMap::new(), places: Vec::new() };
                    self.metrics.entry(metric).or_insert(new);
                }
                Row::Group { metric, check, group, stratum } => {
                    let row = Counted { time, check, group, trial: None };
                    self.metric(&metric)?.push(&stratum, row);
                }
                Row::Trial(TrialRow { metric, check, group, stratum, value, block, .. }) => {
                    let row = Counted { time, check, group, trial: Some((value, block)) };
                    self.metric(&metric)?.push(&stratum, row);
                }
            }
        }
        Ok(())
    }

    fn metric(&mut self, metric: &str) -> Result<&mut Evidence, WrongEvidence> {
        let missing =
            || WrongEvidence::Unreadable(format!("there is no rule of `{metric}` before its trials"));
        self.metrics.get_mut(metric).ok_or_else(missing)
    }

    /// Recomputes an alarm that was raised at a time. Where several strata raised one, it is the one that says the same;
    /// `all` of its blocks are told of, or the first and the last.
    ///
    /// # Errors
    /// There is no such alarm by the evidence.
    pub fn alarm(
        &self,
        metric: &str,
        time: Time,
        message: &str,
        all: bool,
    ) -> Result<Recounted, WrongEvidence> {
        let no_metric = || WrongEvidence::NoSuchMetric(metric.to_owned());
        let Evidence { charge, strata, places, .. } = self.metrics.get(metric).ok_or_else(no_metric)?;
        if charge.prior_varies {
            return Err(WrongEvidence::PriorVaries(metric.to_owned()));
        }
        let mut found: Option<(Alarm, &str)> = None;
        for (index, (name, stratum)) in strata.iter().enumerate() {
            let place = places.iter().position(|place| *place == index);
            for alarm in stratum.alarms(charge, name, place) {
                let is_same = alarm.message == message;
                if alarm.time == time && (is_same || found.is_none()) {
                    found = Some((alarm, name));
                }
                if is_same {
                    break;
                }
            }
        }
        let no_alarm = || WrongEvidence::NoAlarm { metric: metric.to_owned(), at: time.for_people() };
        let (alarm, stratum) = found.ok_or_else(no_alarm)?;
        Ok(Recounted {
            account: account(&charge.rule, charge.rate, stratum, &alarm, all),
            message: alarm.message,
        })
    }
}

impl Evidence {
    fn push(&mut self, stratum: &str, row: Counted) {
        let index = match self.index.get(stratum) {
            Some(index) => *index,
            None => {
                self.index.insert(stratum.to_owned(), self.strata.len());
                self.strata.push((stratum.to_owned(), Stratum::default()));
                self.strata.len() - 1
            }
        };
        let rows = &mut self.strata[index].1.rows;
        if row.trial.is_some() && rows.iter().all(|other| other.trial.is_none()) {
            self.places.push(index);
        }
        rows.push(row);
    }
}

impl Stratum {
    /// Every alarm that was raised here.
    fn alarms(&self, charge: &Charge, name: &str, place: Option<usize>) -> Vec<Alarm> {
        match charge.rule.guarantee {
            None => self.by_map(charge, name),
            Some(_) => place.map(|place| self.by_guarantee(charge, name, place)).unwrap_or_default(),
        }
    }

    /// What was counted of each group up to a check.
    fn counted(&self, check: u64) -> BTreeMap<String, Counts> {
        let mut groups: BTreeMap<String, Counts> = BTreeMap::new();
        for row in self.rows.iter().filter(|row| row.check <= check) {
            let counts = groups.entry(row.group.clone()).or_default();
            if let Some((value, _)) = row.trial {
                counts.numerator += value;
                counts.denominator += 1;
            }
        }
        groups
    }

    /// The paper's rule: the estimates are too far apart.
    fn by_map(&self, charge: &Charge, name: &str) -> Vec<Alarm> {
        let (rule, mut alarms, mut stands) = (&charge.rule, Vec::new(), false);
        let mut groups: BTreeMap<String, Counts> = BTreeMap::new();
        let checks: BTreeSet<u64> = self.rows.iter().map(|row| row.check).collect();
        let mut rows = self.rows.iter().peekable();
        for check in checks {
            let mut time = Time(0);
            while let Some(row) = rows.next_if(|row| row.check <= check) {
                time = row.time;
                let counts = groups.entry(row.group.clone()).or_default();
                if let Some((value, _)) = row.trial {
                    counts.numerator += value;
                    counts.denominator += 1;
                }
            }
            let finding = found(rule, &groups);
            let (beyond, within) = match rule.comparison {
                Comparison::Ratio => (finding.gap < rule.tolerance, finding.gap >= rule.clear),
                _ => (finding.gap > rule.tolerance, finding.gap <= rule.clear),
            };
            if beyond && !stands {
                let message = words::change(rule, &rule.rates[charge.rate], name, &finding, None, None);
                let threshold = rule.tolerance;
                alarms.push(Alarm { time, message, groups: groups.clone(), blocks: Vec::new(), threshold });
            }
            stands = if stands { !within } else { beyond };
        }
        alarms
    }

    /// The evidence, block by block.
    fn by_guarantee(&self, charge: &Charge, name: &str, place: usize) -> Vec<Alarm> {
        let (rule, mut alarms, mut stands) = (&charge.rule, Vec::new(), false);
        let Some(threshold) = needed(rule, place) else { return alarms };
        let mut log_evidence: f64 = 0.0;
        let mut weighed: Vec<Weighed> = Vec::new();
        let mut known: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        let mut counted: BTreeMap<&str, f64> = BTreeMap::new();
        for block in self.blocks(rule.guarantee.map_or(1, |guarantee| guarantee.block)) {
            for (group, (trials, _)) in &block.groups {
                *counted.entry(group).or_default() += trials;
            }
            let is_small = |group: &str| counted.get(group).is_some_and(|all| *all < rule.min_trials as f64);
            let mut groups: Vec<WeighedGroup> = Vec::new();
            for (group, (trials, sum)) in &block.groups {
                let (before, positives) = known.get(group).copied().unwrap_or_default();
                let believed = (positives + 1.0) / (before + 2.0);
                let positives = match rule.range {
                    Some((low, high)) => ((sum - low * trials) / (high - low)).clamp(0.0, *trials),
                    None => *sum,
                };
                let group = (*group).to_owned();
                groups.push(WeighedGroup { group, trials: *trials, positives, believed, fair: believed });
            }
            let compared: Vec<usize> =
                (0..groups.len()).filter(|index| !is_small(&groups[*index].group)).collect();
            project(rule, &mut groups, &compared);
            let log_factor: f64 = compared.iter().map(|index| groups[*index].log_factor()).sum();
            let (floor, kept) = match rule.guarantee.map(|guarantee| guarantee.promise) {
                Some(Promise::Every { memory, .. }) => {
                    let trials: f64 = groups.iter().map(|group| group.trials).sum();
                    (0.0, memory as f64 / (memory as f64 + trials))
                }
                _ => (f64::NEG_INFINITY, 1.0),
            };
            log_evidence = log_evidence.max(floor) + log_factor;
            for of_group in known.values_mut() {
                *of_group = (of_group.0 * kept, of_group.1 * kept);
            }
            for ((group, _), weighed) in block.groups.iter().zip(&groups) {
                let of_group = known.entry(group).or_default();
                *of_group = (of_group.0 + weighed.trials, of_group.1 + weighed.positives);
            }
            let factor = log_factor.exp();
            weighed.push(Weighed { number: block.number, time: block.time, groups, factor, log_evidence });
            if !stands && log_evidence >= threshold.ln() {
                stands = true;
                let groups = self.counted(block.check);
                let finding = found(rule, &groups);
                let evidence = Some((log_evidence.exp(), threshold));
                let message = words::change(rule, &rule.rates[charge.rate], name, &finding, evidence, None);
                let blocks = weighed.clone();
                alarms.push(Alarm { time: block.time, message, groups, blocks, threshold });
            } else if stands && floor == 0.0 && is_fair_of_late(rule, &known, &counted) {
                (stands, log_evidence) = (false, 0.0);
            }
        }
        alarms
    }

    /// Blocks that have been cut: those with enough trials.
    fn blocks(&self, least: u64) -> Vec<Block<'_>> {
        let mut blocks: Vec<Block<'_>> = Vec::new();
        for row in &self.rows {
            let Some((value, Some(number))) = row.trial else { continue };
            if blocks.last().is_none_or(|last| last.number != number) {
                blocks.push(Block { number, time: row.time, check: row.check, groups: BTreeMap::new() });
            }
            if let Some(block) = blocks.last_mut() {
                (block.time, block.check) = (row.time, row.check);
                let (trials, sum) = block.groups.entry(&row.group).or_default();
                *trials += 1.0;
                *sum += value;
            }
        }
        // The last is not complete if it has too few trials.
        let trials: f64 =
            blocks.last().iter().flat_map(|last| last.groups.values()).map(|(trials, _)| trials).sum();
        if trials < least as f64 {
            blocks.pop();
        }
        blocks
    }
}

struct Block<'a> {
    number: u64,
    time: Time,
    check: u64,
    /// Trials and the sum of their values.
    groups: BTreeMap<&'a str, (f64, f64)>,
}

/// Whether groups that are not forgotten are within the tolerance, by what a detector remembers.
fn is_fair_of_late(rule: &Rule, known: &BTreeMap<&str, (f64, f64)>, counted: &BTreeMap<&str, f64>) -> bool {
    let width = rule.range.map_or(1.0, |(low, high)| high - low);
    let is_compared =
        |group: &&str| counted.get(*group).is_some_and(|all| *all >= rule.min_trials.max(1) as f64);
    let rates = known.iter().filter(|(group, (trials, _))| *trials >= 1.0 && is_compared(group));
    let rates: Vec<f64> = rates.map(|(_, (trials, sum))| (sum + 1.0) / (trials + 2.0)).collect();
    let most = rates.iter().copied().fold(0.0, f64::max);
    let least = rates.iter().copied().fold(1.0, f64::min);
    rates.is_empty()
        || match rule.comparison {
            Comparison::Difference => most - least <= rule.tolerance / width,
            Comparison::Ratio => least >= rule.tolerance * most,
            Comparison::Highest => most <= rule.tolerance,
        }
}

/// The e-value at which a stratum has an alarm.
fn needed(rule: &Rule, place: usize) -> Option<f64> {
    let guarantee = rule.guarantee?;
    let of_all = match guarantee.promise {
        Promise::Ever(level) => 1.0 / level,
        Promise::Every { blocks, .. } => blocks,
    };
    let of_strata = match guarantee.strata {
        _ if rule.strata.is_empty() => 1.0,
        Some(strata) if place as u64 >= strata => return None,
        Some(strata) => strata as f64,
        None => (place as f64 + 1.0) * (place as f64 + 2.0),
    };
    Some(of_all * of_strata * rule.rates.len() as f64)
}

impl WeighedGroup {
    pub(super) fn log_factor(&self) -> f64 {
        let mut log = 0.0;
        if self.believed != self.fair {
            if self.positives > 0.0 {
                log += self.positives * (self.believed.ln() - self.fair.ln());
            }
            let rest = self.trials - self.positives;
            if rest > 0.0 {
                log += rest * ((1.0 - self.believed).ln() - (1.0 - self.fair).ln());
            }
        }
        log
    }
}

/// Finds the nearest fair rates of the groups that are compared: a window that slides over the beliefs until what pulls
/// at its lower end is what pulls at its upper end.
fn project(rule: &Rule, groups: &mut [WeighedGroup], compared: &[usize]) {
    let width = rule.range.map_or(1.0, |(low, high)| high - low);
    let upper = |lower: f64| match rule.comparison {
        Comparison::Difference => lower + rule.tolerance / width,
        Comparison::Ratio => lower / rule.tolerance,
        Comparison::Highest => rule.tolerance,
    };
    let lower = match rule.comparison {
        Comparison::Highest => 0.0,
        Comparison::Ratio if rule.tolerance == 0.0 => return,
        _ => {
            let pull = |end: f64, believed: f64, trials: f64| trials * (believed - end) / (end * (1.0 - end));
            let stretch = if rule.comparison == Comparison::Ratio { 1.0 / rule.tolerance } else { 1.0 };
            let is_too_low = |lower: f64| {
                let upper = upper(lower);
                let mut balance = 0.0;
                for group in compared.iter().map(|index| &groups[*index]) {
                    if group.believed > upper {
                        balance += stretch * pull(upper, group.believed, group.trials);
                    } else if group.believed < lower {
                        balance += pull(lower, group.believed, group.trials);
                    }
                }
                balance > 0.0
            };
            let beliefs = || compared.iter().map(|index| groups[*index].believed);
            let (least, most) = (beliefs().fold(1.0, f64::min), beliefs().fold(0.0, f64::max));
            if most <= upper(least) {
                return;
            }
            // The lower end of a window that ends at the highest belief.
            let last = if rule.comparison == Comparison::Ratio {
                most * rule.tolerance
            } else {
                most - rule.tolerance / width
            };
            let mut bounds = (least, last);
            for _ in 0..100 {
                let third = (bounds.1 - bounds.0) / 3.0;
                let (one, two) = (bounds.0 + third, bounds.1 - third);
                bounds = if !is_too_low(one) {
                    (bounds.0, one)
                } else if is_too_low(two) {
                    (two, bounds.1)
                } else {
                    (one, two)
                };
            }
            (bounds.0 + bounds.1) / 2.0
        }
    };
    for index in compared {
        groups[*index].fair = groups[*index].believed.clamp(lower, upper(lower).max(lower));
    }
}

/// The highest and the lowest estimate among groups with enough trials.
fn found<'a>(rule: &Rule, groups: &'a BTreeMap<String, Counts>) -> Finding<'a> {
    let (gamma, kappa) = (rule.prior, rule.confidence);
    let mut estimates: Vec<Found<'a>> = Vec::new();
    for (group, counts) in groups {
        let trials = counts.denominator as f64 + kappa;
        if counts.denominator >= rule.min_trials && trials > 0.0 {
            let estimate = match kappa {
                0.0 => counts.numerator / trials,
                kappa => (counts.numerator + gamma * kappa) / trials,
            };
            estimates.push((group, *counts, estimate));
        }
    }
    // Of equals the first, for either end.
    estimates.sort_by(|one, other| one.2.total_cmp(&other.2));
    let lowest = estimates.first().copied();
    let highest =
        lowest.and(estimates.last()).and_then(|last| estimates.iter().find(|one| one.2 == last.2)).copied();
    let gap = match (highest, lowest, rule.comparison) {
        (Some(high), Some(low), Comparison::Difference) => high.2 - low.2,
        (Some(high), Some(low), Comparison::Ratio) if high.2 > 0.0 => low.2 / high.2,
        (Some(high), _, Comparison::Highest) => high.2,
        (_, _, Comparison::Ratio) => 1.0,
        _ => 0.0,
    };
    Finding { gap, highest, lowest }
}
