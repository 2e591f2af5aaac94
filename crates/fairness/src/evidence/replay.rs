//! Replays evidence and recomputes alarms. It shares no step of the calculation with the judge or with
//! `fairstream-guarantee`, so that a mistake there shows here; only the wording of messages is shared.

use std::collections::{BTreeMap, BTreeSet};

use fairstream_core::{EventBatch, Time};
use serde::{Deserialize, Serialize};

use super::bettor::Way;
use super::family::{FamilyMember, Rejection, rejections, share};
use super::narrative::narrative;
use super::recompute::{BettorPart, BlockStep, NamedGroup, needed_by_detector};
use super::rows::{EvidenceReader, ReadRow};
use super::{AlarmTrials, ChainHead, EvidenceRow, TrialRow};
use crate::judge::{Gap, GroupEstimate, ValuesKey, words};
use crate::{Comparison, Counts, Promise, Rule};

/// The rule of a rate, as recorded in evidence.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RateRule {
    pub(super) rule: Rule,
    pub(super) rate: usize,
    /// Whether γ is an expression, whose values are not recorded.
    pub(super) prior_varies: bool,
    /// Which method was used. Evidence without it has no hashes.
    #[serde(default)]
    pub(super) method: u64,
    /// When the clock began, in nanoseconds since 1970, if there is a window.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) clock: i64,
}

fn is_zero(clock: &i64) -> bool {
    *clock == 0
}

/// The method by which alarms are judged. Evidence of another one cannot be recomputed.
pub(super) const METHOD: u64 = 3;

/// Why an alarm cannot be recomputed from evidence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongEvidence {
    /// The evidence cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// There is no evidence on the metric.
    #[error("there is no evidence of `{0}`: it is of another run")]
    NoSuchMetric(String),
    /// The prior is an expression.
    #[error("the prior of `{0}` is an expression, and what it was is not among the evidence")]
    PriorVaries(String),
    /// The evidence is of another version.
    #[error(
        "the evidence of `{metric}` is of method {found}, and this version recomputes method {METHOD}: take the version of \
         fairstream that wrote it"
    )]
    OtherMethod {
        /// The metric.
        metric: String,
        /// Its method.
        found: u64,
    },
    /// A row has another hash than what comes before it leads to.
    #[error(
        "row {row} of the evidence does not fit the rows before it: it was changed, or rows were removed or added before it"
    )]
    BrokenChain {
        /// The number of the row in the file.
        row: u64,
    },
    /// The evidence is not the one that an alarm was raised on.
    #[error(
        "an alarm was raised on {rows} rows of evidence, of which the last has another hash here: they were replaced"
    )]
    OtherChain {
        /// Number of rows at the alarm.
        rows: u64,
    },
    /// The evidence ends before the rows that an alarm was raised on.
    #[error(
        "the evidence ends after {found} rows, but an alarm was raised on {rows} of them: its end was cut off"
    )]
    CutOff {
        /// Number of rows at the alarm.
        rows: u64,
        /// Number of rows that are left.
        found: u64,
    },
    /// A trial is in another block than the calculation puts it in.
    #[error(
        "the trial that was final at {at} belongs to block {number}, and the evidence has it in {found:?}"
    )]
    WrongBlock {
        /// The block in the evidence.
        found: Option<u64>,
        /// The block by the calculation.
        number: u64,
        /// When the trial became final.
        at: String,
    },
    /// The evidence gives no alarm at that time.
    #[error("no alarm of `{metric}` at {at} comes of this evidence: it is of another run, or not complete")]
    NoAlarm {
        /// The metric.
        metric: String,
        /// The time of the alarm.
        at: String,
    },
}

/// Evidence that has been read, by metric.
#[derive(Debug, Default)]
pub struct Replay {
    metrics: BTreeMap<String, MetricEvidence>,
    /// The rows that have been read.
    head: ChainHead,
    /// What alarms were raised on, in ascending order of rows.
    published: Vec<ChainHead>,
}

#[derive(Debug)]
struct MetricEvidence {
    rate_rule: RateRule,
    strata: Vec<(String, StratumEvidence)>,
    index: BTreeMap<String, usize>,
    /// Indices of strata in order of their first trial.
    ranks: Vec<usize>,
    /// The time of each check that wrote rows, by its number.
    checks: BTreeMap<u64, Time>,
}

/// The rows of a stratum in order of time.
#[derive(Debug, Default)]
pub(super) struct StratumEvidence {
    pub(super) rows: Vec<EvidenceEntry>,
    has_trial: bool,
}

#[derive(Debug)]
pub(super) struct EvidenceEntry {
    /// The number of the row in the evidence.
    pub(super) row: u64,
    pub(super) time: Time,
    pub(super) check: u64,
    pub(super) group: String,
    /// `None` if the row only registers a group.
    pub(super) trial: Option<EvidenceTrial>,
}

/// The trial of a row.
#[derive(Debug)]
pub(super) struct EvidenceTrial {
    pub(super) value: f64,
    pub(super) block: Option<u64>,
    /// When it became final, in nanoseconds since 1970.
    pub(super) ended: i64,
}

/// An alarm, recomputed.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayedAlarm {
    /// The message that follows from the evidence.
    pub message: String,
    /// The calculation, explained in sentences.
    pub narrative: String,
    /// When it was raised, for readers.
    pub when: String,
    /// The trials that it rests on.
    pub trials: AlarmTrials,
}

/// A recomputed alarm and the data behind it.
#[derive(Debug)]
pub(super) struct RecomputedAlarm {
    pub(super) time: Time,
    pub(super) message: String,
    /// Counts of each group at the alarm.
    pub(super) groups: GroupCounts,
    /// The steps of the bettor that the alarm is about, if there is a guarantee.
    pub(super) blocks: Vec<BlockStep>,
    /// The parts of the e-value, if there is a guarantee.
    pub(super) parts: Vec<BettorPart>,
    /// The bettor with the largest e-value, by its first block, and its estimate; if there is a guarantee.
    pub(super) leader: Option<(u64, Way)>,
    /// Logarithm of the e-value, if there is a guarantee.
    pub(super) log_evidence: f64,
    /// The groups that it is about, if there is a guarantee.
    pub(super) named: Vec<NamedGroup>,
    /// Logarithm of the threshold that was exceeded, if there is a guarantee.
    pub(super) log_threshold: f64,
    /// The check that raised it.
    pub(super) check: u64,
    /// The first block that it rests on, if there is a guarantee.
    pub(super) first_block: Option<u64>,
}

/// The counts of each group, in the order of groups.
pub(super) type GroupCounts = BTreeMap<ValuesKey<String>, Counts>;

impl Replay {
    /// Evidence that alarms were raised on: as they are read, rows are compared with these.
    pub fn new(mut published: Vec<ChainHead>) -> Replay {
        published.sort_by_key(|head| std::cmp::Reverse(head.rows));
        Replay { published, ..Replay::default() }
    }

    /// The rows that have been read.
    pub fn head(&self) -> &ChainHead {
        &self.head
    }

    /// Checks that all rows that an alarm was raised on have been read.
    ///
    /// # Errors
    /// Some are missing.
    pub fn finish(&self) -> Result<(), WrongEvidence> {
        let found = self.head.rows;
        match self.published.last() {
            Some(head) => Err(WrongEvidence::CutOff { rows: head.rows, found }),
            None => Ok(()),
        }
    }

    /// Adds a batch with the columns of [`EvidenceReader::wanted`].
    ///
    /// # Errors
    /// They are not rows of evidence, or not those that were recorded.
    pub fn add(&mut self, batch: &EventBatch) -> Result<(), WrongEvidence> {
        for read in EvidenceReader::rows(batch).map_err(WrongEvidence::Unreadable)? {
            let ReadRow { number, time, hash, row } = read;
            if *self.head.add(time, &row) != hash {
                return Err(WrongEvidence::BrokenChain { row: number });
            }
            while let Some(head) = self.published.pop_if(|head| head.rows == self.head.rows) {
                if head.hash != hash {
                    return Err(WrongEvidence::OtherChain { rows: head.rows });
                }
            }
            match row {
                EvidenceRow::Rule { metric, rule } => {
                    let rate_rule: RateRule = serde_json::from_str(&rule).map_err(|error| {
                        WrongEvidence::Unreadable(format!("the rule of `{metric}`: {error}"))
                    })?;
                    if rate_rule.method != METHOD {
                        return Err(WrongEvidence::OtherMethod { metric, found: rate_rule.method });
                    }
                    let new = MetricEvidence {
                        rate_rule,
                        strata: Vec::new(),
                        index: BTreeMap::new(),
                        ranks: Vec::new(),
                        checks: BTreeMap::new(),
                    };
                    self.metrics.entry(metric).or_insert(new);
                }
                EvidenceRow::Group { metric, check, group, stratum } => {
                    let row = EvidenceEntry { row: number, time, check, group, trial: None };
                    self.metric(&metric)?.push(&stratum, row);
                }
                EvidenceRow::Left { metric, check } => {
                    self.metric(&metric)?.checks.insert(check, time);
                }
                EvidenceRow::Trial(TrialRow {
                    metric, check, ended, group, stratum, value, block, ..
                }) => {
                    let trial = EvidenceTrial { value, block, ended: ended.0 };
                    let row = EvidenceEntry { row: number, time, check, group, trial: Some(trial) };
                    self.metric(&metric)?.push(&stratum, row);
                }
            }
        }
        Ok(())
    }

    fn metric(&mut self, metric: &str) -> Result<&mut MetricEvidence, WrongEvidence> {
        let missing =
            || WrongEvidence::Unreadable(format!("there is no rule of `{metric}` before its trials"));
        self.metrics.get_mut(metric).ok_or_else(missing)
    }

    /// Recomputes an alarm that was raised at a time. If several strata raised one then, the one with the same message
    /// is chosen. With `all`, every block is explained; otherwise only the first and the last ones.
    ///
    /// # Errors
    /// The evidence gives no such alarm.
    pub fn alarm(
        &self,
        metric: &str,
        time: Time,
        message: &str,
        all: bool,
    ) -> Result<ReplayedAlarm, WrongEvidence> {
        let no_metric = || WrongEvidence::NoSuchMetric(metric.to_owned());
        let MetricEvidence { rate_rule, strata, ranks, checks, .. } =
            self.metrics.get(metric).ok_or_else(no_metric)?;
        // With a guarantee neither an alarm nor its message depends on a prior.
        if rate_rule.prior_varies && rate_rule.rule.guarantee.is_none() {
            return Err(WrongEvidence::PriorVaries(metric.to_owned()));
        }
        let mut found: Option<(RecomputedAlarm, &str)> = None;
        let rejections = self.rejections(rate_rule)?;
        for (index, (name, stratum)) in strata.iter().enumerate() {
            let rejection = rejections.iter().find(|(of, number, _)| *of == metric && *number == index);
            let alarms = match (rate_rule.rule.guarantee, rejection) {
                (None, _) => stratum.by_map(rate_rule, name, checks),
                (Some(_), Some((.., at))) if at.time == time => {
                    vec![stratum.by_rejection(rate_rule, name, *at)?]
                }
                (Some(_), _) => {
                    let rank = ranks.iter().position(|ranked| *ranked == index);
                    match rank.and_then(|rank| needed_by_detector(&rate_rule.rule, rank)) {
                        Some(threshold) => stratum.by_detector(rate_rule, name, threshold)?,
                        None => Vec::new(),
                    }
                }
            };
            for alarm in alarms.into_iter().filter(|alarm| alarm.time == time) {
                if alarm.message == message || found.is_none() {
                    found = Some((alarm, name));
                }
            }
        }
        let when = rate_rule.rule.when(time);
        let no_alarm = || WrongEvidence::NoAlarm { metric: metric.to_owned(), at: when.clone() };
        let (alarm, stratum) = found.ok_or_else(no_alarm)?;
        Ok(ReplayedAlarm {
            narrative: narrative(&rate_rule.rule, rate_rule.rate, stratum, &alarm, all),
            when,
            trials: AlarmTrials {
                metric: metric.to_owned(),
                stratum: stratum.to_owned(),
                last_check: alarm.check,
                first_block: alarm.first_block,
                left_until: rate_rule.left_until(alarm.time),
            },
            message: alarm.message,
        })
    }

    /// Every alarm of the hypotheses that share the guarantee of a rule: metric, stratum, and when it is raised. None if
    /// nothing is shared.
    fn rejections(&self, of: &RateRule) -> Result<Vec<(&str, usize, Rejection)>, WrongEvidence> {
        let promise = of.rule.guarantee.map(|guarantee| guarantee.promise);
        let (promise, level) = match promise {
            Some(promise @ (Promise::Ever(level) | Promise::Discoveries(level))) => (promise, level),
            Some(Promise::Every { .. }) | None => return Ok(Vec::new()),
        };
        let mut members = Vec::new();
        let shares = |evidence: &&MetricEvidence| {
            let rule = &evidence.rate_rule.rule;
            rule.guarantee.is_some() && rule.family == of.rule.family
        };
        for (metric, evidence) in self.metrics.iter().filter(|(_, evidence)| shares(evidence)) {
            let rule = &evidence.rate_rule.rule;
            for (rank, stratum) in evidence.ranks.iter().enumerate() {
                if let Some(share) = share(rule, rank) {
                    let looks = evidence.strata[*stratum].1.looks(rule)?;
                    members.push(FamilyMember { metric, stratum: *stratum, share, looks });
                }
            }
        }
        let rejected = rejections(promise, level, &members).into_iter();
        let named = members
            .iter()
            .zip(rejected)
            .filter_map(|(member, at)| Some((member.metric, member.stratum, at?)));
        Ok(named.collect())
    }

    /// Whether times are numbers of rows, in seconds.
    pub fn by_rows(&self) -> bool {
        self.metrics.values().next().is_some_and(|metric| metric.rate_rule.rule.by_rows)
    }
}

impl RateRule {
    /// Trials that were counted up to this time have left the window at a check.
    fn left_until(&self, check: Time) -> Option<Time> {
        self.rule.window?.left_until(self.clock, check.0).map(Time)
    }
}

impl MetricEvidence {
    fn push(&mut self, stratum: &str, row: EvidenceEntry) {
        self.checks.insert(row.check, row.time);
        let index = match self.index.get(stratum) {
            Some(index) => *index,
            None => {
                self.index.insert(stratum.to_owned(), self.strata.len());
                self.strata.push((stratum.to_owned(), StratumEvidence::default()));
                self.strata.len() - 1
            }
        };
        let stratum = &mut self.strata[index].1;
        if row.trial.is_some() && !std::mem::replace(&mut stratum.has_trial, true) {
            self.ranks.push(index);
        }
        stratum.rows.push(row);
    }
}

impl StratumEvidence {
    /// Counts of each group up to a check, without the trials that have left the window by then.
    pub(super) fn counted(&self, rate_rule: &RateRule, check: u64, time: Time) -> GroupCounts {
        let left = rate_rule.left_until(time);
        let mut groups: BTreeMap<&str, Counts> = BTreeMap::new();
        for row in self.rows.iter().filter(|row| row.check <= check) {
            let counts = groups.entry(&row.group).or_default();
            if let Some(EvidenceTrial { value, .. }) = row.trial
                && left.is_none_or(|left| row.time > left)
            {
                counts.numerator += value;
                counts.denominator += 1;
            }
        }
        groups.into_iter().map(|(group, counts)| (ValuesKey(group.to_owned()), counts)).collect()
    }

    /// Alarms by the rule of the paper, which compares estimates with the tolerance.
    fn by_map(&self, rate_rule: &RateRule, name: &str, all: &BTreeMap<u64, Time>) -> Vec<RecomputedAlarm> {
        let (rule, mut alarms, mut stands) = (&rate_rule.rule, Vec::new(), false);
        let mut groups = GroupCounts::new();
        // Trials may leave a window at any check.
        let own: BTreeSet<u64> = self.rows.iter().map(|row| row.check).collect();
        let is_checked = |check: &u64| rule.window.is_some() || own.contains(check);
        let mut rows = self.rows.iter().peekable();
        let mut leaving = self.rows.iter().peekable();
        for (&check, &time) in all.iter().filter(|(check, _)| is_checked(check)) {
            while let Some(row) = rows.next_if(|row| row.check <= check) {
                let counts = groups.entry(ValuesKey(row.group.clone())).or_default();
                if let Some(EvidenceTrial { value, .. }) = row.trial {
                    counts.numerator += value;
                    counts.denominator += 1;
                }
            }
            let left = rate_rule.left_until(time);
            while let Some(row) = leaving.next_if(|row| left.is_some_and(|left| row.time <= left)) {
                let counts = groups.entry(ValuesKey(row.group.clone())).or_default();
                if let Some(EvidenceTrial { value, .. }) = row.trial {
                    counts.numerator -= value;
                    counts.denominator -= 1;
                }
            }
            let gap = gap_of(rule, &groups);
            let (beyond, within) = match rule.comparison {
                Comparison::Ratio => (gap.size < rule.tolerance, gap.size >= rule.clear),
                _ => (gap.size > rule.tolerance, gap.size <= rule.clear),
            };
            if beyond && !stands {
                let message = words::change(rule, &rule.rates[rate_rule.rate], name, &gap, None);
                alarms.push(RecomputedAlarm {
                    time,
                    message,
                    groups: groups.clone(),
                    blocks: Vec::new(),
                    parts: Vec::new(),
                    leader: None,
                    log_evidence: f64::NEG_INFINITY,
                    named: Vec::new(),
                    log_threshold: f64::NEG_INFINITY,
                    check,
                    first_block: None,
                });
            }
            stands = if stands { !within } else { beyond };
        }
        alarms
    }
}

/// The prior γ: that of the rule, or else the rate of all groups together.
pub(super) fn prior_of(rule: &Rule, groups: &GroupCounts) -> f64 {
    if let Some(prior) = rule.prior {
        return prior;
    }
    let trials: u64 = groups.values().map(|counts| counts.denominator).sum();
    let positives: f64 = groups.values().map(|counts| counts.numerator).sum();
    if trials > 0 { positives / trials as f64 } else { 0.5 }
}

/// The highest and the lowest estimate among groups with enough trials; or the pair of the reference group and another
/// one that is furthest apart.
pub(super) fn gap_of<'a>(rule: &Rule, groups: &'a GroupCounts) -> Gap<'a> {
    let (gamma, kappa) = (prior_of(rule, groups), rule.confidence);
    let mut estimates: Vec<GroupEstimate<'a>> = Vec::new();
    for (group, counts) in groups {
        let trials = counts.denominator as f64 + kappa;
        if counts.denominator >= rule.min_trials && trials > 0.0 {
            let estimate = match kappa {
                0.0 => counts.numerator / trials,
                kappa => (counts.numerator + gamma * kappa) / trials,
            };
            estimates.push((&group.0, *counts, estimate));
        }
    }
    // Among equal estimates the first group is chosen, at either end.
    estimates.sort_by(|one, other| one.2.total_cmp(&other.2));
    let lowest = estimates.first().copied();
    let highest =
        lowest.and(estimates.last()).and_then(|last| estimates.iter().find(|one| one.2 == last.2)).copied();
    let (highest, lowest) = match &rule.reference {
        None => (highest, lowest),
        Some(reference) => match estimates.iter().find(|one| one.0 == reference).copied() {
            None => (None, None),
            Some(own) => {
                // Signed, so that the larger of two is further apart, for ratios too.
                let apart = |high: f64, low: f64| match rule.comparison {
                    Comparison::Ratio if high > 0.0 => -low / high,
                    Comparison::Ratio => -1.0,
                    _ => high - low,
                };
                let ends = highest.zip(lowest);
                match ends.is_some_and(|(high, low)| apart(high.2, own.2) > apart(own.2, low.2)) {
                    true => (highest, Some(own)),
                    false => (Some(own), lowest),
                }
            }
        },
    };
    let size = match (highest, lowest, rule.comparison) {
        (Some(high), Some(low), Comparison::Difference) => high.2 - low.2,
        (Some(high), Some(low), Comparison::Ratio) if high.2 > 0.0 => low.2 / high.2,
        (Some(high), _, Comparison::Highest) => high.2,
        (_, _, Comparison::Ratio) => 1.0,
        _ => 0.0,
    };
    Gap { size, highest, lowest }
}
