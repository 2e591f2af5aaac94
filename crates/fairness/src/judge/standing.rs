//! Standings: the state of every rate, for summaries.

use std::collections::HashMap;

use fairstream_core::Time;
use fairstream_guarantee::Interval;

use super::words::{label, number, stratum_suffix};
use super::{AlarmBasis, Assessment, Estimator, Gap, Judge, Rule, RuleRate, Stratum};
use crate::Comparison;

/// The state of a rate in one stratum.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// Title of the rate, with the stratum.
    pub title: String,
    /// The question that the rate answers, as a sentence.
    pub question: String,
    /// Indices of the rule and of the rate within it.
    pub rate_index: (usize, usize),
    /// The key under which the judge stores the stratum.
    pub stratum_key: String,
    /// The name of its alarms.
    pub stream: String,
    /// Whether numerators are sums of numbers and not counts of trials.
    pub is_mean: bool,
    /// The stratum, as a JSON array; `None` if there are none.
    pub stratum: Option<String>,
    /// When the active alarm was raised, if there is one.
    pub alarm: Option<Time>,
    /// What the active alarm rests on: its message, groups, counts and evidence when it was raised.
    pub alarm_basis: Option<AlarmBasis>,
    /// When the last alarm that was cleared was raised and cleared.
    pub last_alarm: Option<(Time, Time)>,
    /// Number of alarms raised so far.
    pub raised: u64,
    /// What `gap` is: a difference, a ratio or the highest rate.
    pub comparison: Comparison,
    /// The gap, ratio or highest rate; `None` if no group has enough evidence, or the reference group has not.
    pub gap: Option<f64>,
    /// The evidence, if there is a guarantee. Without intervals, if there is a window.
    pub assessment: Option<Assessment>,
    /// All groups, including those that are not compared.
    pub groups: Vec<GroupStanding>,
}

/// A rate in one stratum, and the state of its alarm: enough to choose the standings that are shown. Takes a fraction of
/// the time that a [`Standing`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandingOutline<'a> {
    /// Indices of the rule and of the rate within it.
    pub rate_index: (usize, usize),
    /// The key under which the judge stores the stratum.
    pub stratum_key: &'a str,
    /// Whether the rate has strata.
    pub has_strata: bool,
    /// When the active alarm was raised, if there is one.
    pub alarm: Option<Time>,
    /// Number of alarms raised so far.
    pub raised: u64,
    /// Trials that wait for their horizon, over all groups.
    pub pending: u64,
}

/// The state of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupStanding {
    /// Its values as a label.
    pub group: String,
    /// Its values, as a JSON array.
    pub values: String,
    /// Whether the others are compared with it alone.
    pub is_reference: bool,
    /// Number of positive trials, or the sum of their numbers.
    pub numerator: f64,
    /// Number of counted trials.
    pub denominator: u64,
    /// Trials that wait for their horizon.
    pub pending: u64,
    /// Trials whose outcome is not known.
    pub unknown: u64,
    /// The fraction of positive trials, or the mean of their numbers; `None` without a trial.
    pub share: Option<f64>,
    /// The prior γ, if it is computed.
    pub prior: Option<f64>,
    /// The MAP estimate, if there is one. It is what the rule `map` compares.
    pub estimate: Option<f64>,
    /// Whether the group has enough trials to be compared.
    pub has_evidence: bool,
    /// The share as text.
    pub shown: String,
    /// The estimate as text, if it is not the text of the share.
    pub estimate_shown: Option<String>,
    /// Confidence interval for the rate, if there is a guarantee and no window: it is for the rate of all trials.
    pub interval: Option<Interval>,
}

impl Standing {
    /// Why nothing is compared, if that is for want of the reference group.
    pub fn without_reference(&self, rule: &Rule) -> Option<String> {
        let reference = rule.reference_label().filter(|_| self.gap.is_none())?;
        let is_counted = |group: &GroupStanding| group.is_reference && group.denominator > 0;
        Some(match self.groups.iter().any(is_counted) {
            true => format!("the reference {reference} has too few trials: nothing is compared"),
            false => {
                let window = rule.window_in_words().map(|window| format!(" {window}")).unwrap_or_default();
                format!("no trial{window} has the reference {reference}: nothing is compared")
            }
        })
    }

    /// Whether an estimate differs from the share of its group.
    pub fn is_estimated(&self) -> bool {
        self.groups.iter().any(|group| group.estimate_shown.is_some())
    }
}

impl GroupStanding {
    /// The number that is compared with other groups, as text: the estimate, or the share if they are the same.
    pub fn compared(&self) -> &str {
        self.estimate_shown.as_deref().unwrap_or(&self.shown)
    }
}

impl Judge {
    /// The state of every rate in every stratum.
    pub fn standings(&self) -> Vec<Standing> {
        self.outlines().iter().filter_map(|outline| self.standing(outline)).collect()
    }

    /// Every rate in every stratum, in the order of [`standings`](Judge::standings).
    pub fn outlines(&self) -> Vec<StandingOutline<'_>> {
        let mut outlines = Vec::new();
        for (rule_number, (rule, rates)) in self.rules.iter().zip(&self.state).enumerate() {
            for (rate_number, strata) in rates.iter().enumerate() {
                outlines.extend(strata.items.iter().map(|(name, stratum)| StandingOutline {
                    rate_index: (rule_number, rate_number),
                    stratum_key: name,
                    has_strata: !rule.strata.is_empty(),
                    alarm: stratum.alarm.as_ref().map(|alarm| alarm.since),
                    raised: stratum.raised,
                    pending: stratum.groups.unordered().map(|counts| counts.pending).sum(),
                }));
            }
        }
        outlines
    }

    /// The state of a rate in a stratum.
    pub fn standing(&self, outline: &StandingOutline<'_>) -> Option<Standing> {
        let (rule, rate) = outline.rate_index;
        let mut assessment = self.assess(rule, rate, outline.stratum_key);
        let stratum = self.stratum(rule, rate, outline.stratum_key)?;
        let rule = self.rules.get(rule)?;
        if let Some(assessment) = assessment.as_mut().filter(|_| rule.window.is_some()) {
            // Intervals are for rates of all trials, not for those that are shown.
            (assessment.gap, assessment.groups) = (None, Vec::new());
        }
        Some(standing(rule, rule.rates.get(rate)?, outline, stratum, assessment))
    }
}

fn standing(
    rule: &Rule,
    rate: &RuleRate,
    outline: &StandingOutline<'_>,
    stratum: &Stratum,
    assessment: Option<Assessment>,
) -> Standing {
    let StandingOutline { rate_index, stratum_key, alarm, raised, .. } = *outline;
    let gap = Gap::of(rule, &stratum.groups);
    let intervals = assessment.iter().flat_map(|assessment| &assessment.groups);
    let intervals: HashMap<&str, Interval> =
        intervals.map(|(name, interval)| (name.as_str(), *interval)).collect();
    let estimator = Estimator::new(rule, stratum.groups.values());
    let groups = stratum.groups.iter().map(|(values, counts)| {
        let (share, estimate) = (counts.share(), estimator.estimate(counts));
        let is_computed = counts.prior.is_some() || rule.prior.is_none();
        let shown = |of: Option<f64>| of.map(|of| number(of, rate));
        GroupStanding {
            group: label(values),
            values: values.to_owned(),
            is_reference: rule.reference.as_deref() == Some(values),
            numerator: counts.numerator,
            denominator: counts.denominator,
            pending: counts.pending,
            unknown: counts.unknown,
            share,
            prior: is_computed.then(|| estimator.prior(counts)),
            estimate,
            has_evidence: counts.has_evidence(rule) && estimate.is_some(),
            shown: shown(share).unwrap_or_else(|| "-".to_owned()),
            estimate_shown: shown(estimate).filter(|of| shown(share).as_ref() != Some(of)),
            interval: intervals.get(values).copied(),
        }
    });
    let groups = groups.collect();
    Standing {
        title: format!("{}{}", rate.title, stratum_suffix(&rule.strata, stratum_key)),
        question: rate.question.clone(),
        rate_index,
        stratum_key: stratum_key.to_owned(),
        stream: rate.stream.clone(),
        is_mean: rate.is_mean,
        stratum: (!rule.strata.is_empty()).then(|| stratum_key.to_owned()),
        alarm,
        alarm_basis: stratum.alarm.clone(),
        last_alarm: stratum.last_alarm.map(|(from, to)| (Time(from), Time(to))),
        raised,
        comparison: rule.comparison,
        gap: gap.highest.is_some().then_some(gap.size),
        assessment,
        groups,
    }
}
