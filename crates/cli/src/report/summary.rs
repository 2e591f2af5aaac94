//! The final state of a run for machines: every metric, rate, stratum and group with its numbers, and alarms with what
//! they rest on. docs/summary.schema.json describes it.

use std::collections::BTreeMap;

use fairstream_core::RunCounts;
use fairstream_fairness::{
    AlarmDetails, ChainHead, Comparison, Every, EvidenceNumbers, GroupStanding, ImpactRatio, Interval, Judge,
    Outcome, Promise, Rule, Standing, by_column,
};
use serde::Serialize;
use serde_json::Value;

use super::{PageData, now};

/// Version of the format: it grows when something is taken away or changes its meaning, not when something is added.
const VERSION: u32 = 1;

#[derive(Debug, Serialize)]
pub(super) struct Summary {
    fairstream_summary: u32,
    program: String,
    title: String,
    command: String,
    started: String,
    ended: String,
    /// Whether the input was read to its end.
    is_complete: bool,
    specification: HashedFile,
    inputs: Vec<HashedFile>,
    rows: SummaryRows,
    /// Whether times are numbers of rows, in seconds since 1970.
    times_are_rows: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reached: Option<String>,
    verdict: &'static str,
    alarms_raised: u64,
    alarms_active: u64,
    /// The rows of evidence, if it was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<ChainHead>,
    metrics: Vec<SummaryMetric>,
}

#[derive(Debug, Serialize)]
struct HashedFile {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
}

#[derive(Debug, Serialize)]
struct SummaryRows {
    read: u64,
    rejected: u64,
    late: u64,
    outside: u64,
    dropped: u64,
    evaluated: u64,
    without_key: u64,
    without_group: u64,
    excepted: u64,
}

#[derive(Debug, Serialize)]
struct SummaryMetric {
    title: String,
    comparison: &'static str,
    tolerance: f64,
    min_trials: u64,
    groups: Vec<String>,
    /// The group that every other is compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<BTreeMap<String, Value>>,
    strata: Vec<String>,
    /// How long the window is in which trials count.
    #[serde(skip_serializing_if = "Option::is_none")]
    window_seconds: Option<f64>,
    rule: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    guarantee: Option<SummaryGuarantee>,
    rates: Vec<SummaryRate>,
}

#[derive(Debug, Serialize)]
struct SummaryGuarantee {
    #[serde(skip_serializing_if = "Option::is_none")]
    false_alarms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    false_discoveries: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    false_alarm_every_trials: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    false_alarm_every_seconds: Option<f64>,
    /// Number of comparisons that share it.
    shared_by: u64,
}

#[derive(Debug, Serialize)]
struct SummaryRate {
    title: String,
    stream: String,
    question: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    favourable: Option<bool>,
    is_mean: bool,
    /// Whether any stratum is unfair.
    #[serde(skip_serializing_if = "Option::is_none")]
    any_stratum: Option<SummaryAnyStratum>,
    strata: Vec<SummaryStratum>,
}

/// The evidence that any stratum of a rate is unfair.
#[derive(Debug, Serialize)]
struct SummaryAnyStratum {
    strata: u64,
    is_unfair: bool,
    #[serde(flatten)]
    evidence: EvidenceNumbers,
}

#[derive(Debug, Serialize)]
struct SummaryStratum {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    stratum: BTreeMap<String, Value>,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    gap: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gap_interval: Option<[f64; 2]>,
    #[serde(flatten)]
    evidence: EvidenceNumbers,
    #[serde(skip_serializing_if = "Option::is_none")]
    further_trials: Option<u64>,
    alarms_raised: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    alarm: Option<SummaryAlarm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_cleared: Option<SummarySpan>,
    groups: Vec<SummaryGroup>,
}

#[derive(Debug, Serialize)]
struct SummarySpan {
    raised: String,
    cleared: String,
}

#[derive(Debug, Serialize)]
struct SummaryAlarm {
    message: String,
    #[serde(flatten)]
    details: AlarmDetails,
}

#[derive(Debug, Serialize)]
struct SummaryGroup {
    group: BTreeMap<String, Value>,
    numerator: f64,
    trials: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<[f64; 2]>,
    /// The MAP estimate, of the rule `map`.
    #[serde(skip_serializing_if = "Option::is_none")]
    estimate: Option<f64>,
    pending: u64,
    unknown: u64,
    /// Whether it has enough trials to be compared.
    is_compared: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    impact: Option<SummaryImpact>,
}

#[derive(Debug, Serialize)]
struct SummaryImpact {
    favourable_share: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
    is_under_four_fifths: bool,
    shortfall: u64,
    is_under_two_percent: bool,
}

impl PageData<'_> {
    /// The final state of the run.
    pub(super) fn summary(&self) -> Summary {
        let PageData { judge, compiled, counts, subject, is_complete } = self;
        let standings = judge.standings();
        let rows = judge.rows();
        let RunCounts { read, rejected, late, outside, dropped, evaluated, reached, .. } = **counts;
        Summary {
            fairstream_summary: VERSION,
            program: format!("fairstream {}", env!("CARGO_PKG_VERSION")),
            title: compiled.file().title().to_owned(),
            command: subject.command.clone(),
            started: subject.started.to_string(),
            ended: now().to_string(),
            is_complete: *is_complete,
            specification: HashedFile { name: subject.file.clone(), sha256: Some(subject.sha256()) },
            inputs: subject
                .input_hashes()
                .into_iter()
                .map(|(name, sha256)| HashedFile { name, sha256 })
                .collect(),
            rows: SummaryRows {
                read,
                rejected,
                late,
                outside,
                dropped,
                evaluated,
                without_key: rows.without_key,
                without_group: rows.without_group,
                excepted: rows.excepted,
            },
            times_are_rows: judge.by_rows(),
            reached: reached.map(|reached| reached.to_string()),
            verdict: overall(judge, &standings),
            alarms_raised: judge.raised(),
            alarms_active: standings.iter().filter(|standing| standing.alarm.is_some()).count() as u64,
            evidence: judge.recorded().cloned(),
            metrics: metrics(judge, &standings),
        }
    }
}

/// The worst verdict of all rates.
fn overall(judge: &Judge, standings: &[Standing]) -> &'static str {
    let of = |standing: &Standing| self::verdict(&judge.rules()[standing.rate_index.0], standing);
    let any = |verdict: &str| standings.iter().any(|standing| of(standing) == verdict);
    let found = ["unfair", "cleared", "not enough evidence yet", "no alarm", "fair so far"];
    found.into_iter().find(|verdict| any(verdict)).unwrap_or("not enough evidence yet")
}

fn verdict(rule: &Rule, standing: &Standing) -> &'static str {
    match (&standing.assessment, standing.alarm) {
        // With a guarantee, there is an assessment from the first trial on.
        (None, None) if rule.guarantee.is_some() && standing.raised == 0 => "not enough evidence yet",
        (_, Some(_)) => "unfair",
        (_, None) if standing.raised > 0 => "cleared",
        (Some(assessment), None) => assessment.verdict(),
        (None, None) => "no alarm",
    }
}

fn metrics(judge: &Judge, standings: &[Standing]) -> Vec<SummaryMetric> {
    let metric = |(index, rule): (usize, &Rule)| SummaryMetric {
        title: rule.title.clone(),
        comparison: match rule.comparison {
            Comparison::Difference => "difference",
            Comparison::Ratio => "ratio",
            Comparison::Highest => "highest",
        },
        tolerance: rule.tolerance,
        min_trials: rule.min_trials,
        groups: rule.groups.clone(),
        reference: rule.reference.as_deref().map(|reference| by_column(&rule.groups, reference)),
        strata: rule.strata.clone(),
        window_seconds: rule.window.map(|window| window.length.as_secs_f64()),
        rule: if rule.guarantee.is_some() { "guarantee" } else { "map" },
        guarantee: guarantee(rule),
        rates: (0..rule.rates.len()).map(|rate| self::rate(judge, (index, rate), standings)).collect(),
    };
    judge.rules().iter().enumerate().map(metric).collect()
}

fn guarantee(rule: &Rule) -> Option<SummaryGuarantee> {
    let promise = rule.guarantee?.promise;
    let mut guarantee = SummaryGuarantee {
        false_alarms: None,
        false_discoveries: None,
        false_alarm_every_trials: None,
        false_alarm_every_seconds: None,
        shared_by: rule.comparisons * rule.rates.len() as u64,
    };
    match promise {
        Promise::Ever(level) => guarantee.false_alarms = Some(level),
        Promise::Discoveries(level) => guarantee.false_discoveries = Some(level),
        Promise::Every { every: Every::Trials(trials), .. } => {
            guarantee.false_alarm_every_trials = Some(trials);
        }
        Promise::Every { every: Every::Time(time), .. } => {
            guarantee.false_alarm_every_seconds = Some(time.as_secs_f64());
        }
    }
    Some(guarantee)
}

fn rate(judge: &Judge, index: (usize, usize), standings: &[Standing]) -> SummaryRate {
    let rule = &judge.rules()[index.0];
    let rate = &rule.rates[index.1];
    let any_stratum = judge.assess_strata(index.0, index.1).map(|of| SummaryAnyStratum {
        strata: of.strata,
        is_unfair: of.is_any_unfair(),
        evidence: EvidenceNumbers::new(Some(of.log_e_value), Some(of.log_threshold), None),
    });
    let of_rate = standings.iter().filter(|standing| standing.rate_index == index);
    SummaryRate {
        title: rate.title.clone(),
        stream: rate.stream.clone(),
        question: rate.question.clone(),
        favourable: rate.favourable,
        is_mean: rate.is_mean,
        any_stratum,
        strata: of_rate.map(|standing| stratum(rule, standing)).collect(),
    }
}

fn stratum(rule: &Rule, standing: &Standing) -> SummaryStratum {
    let assessment = standing.assessment.as_ref();
    let impacts = standing.impact_ratios(rule).unwrap_or_default();
    let impacts = impacts.into_iter().chain(std::iter::repeat(None));
    let further = assessment.and_then(|assessment| match assessment.outcome {
        Outcome::NotYet { further } => further,
        Outcome::Fair | Outcome::Unfair => None,
    });
    let values = standing.stratum.as_deref().unwrap_or("[]");
    SummaryStratum {
        stratum: by_column(&rule.strata, values),
        verdict: verdict(rule, standing),
        gap: standing.gap,
        gap_interval: assessment.and_then(|assessment| assessment.gap).map(ends),
        evidence: EvidenceNumbers::new(
            assessment.map(|assessment| assessment.log_e_value),
            assessment.and_then(|assessment| assessment.log_threshold),
            assessment.and_then(|assessment| assessment.log_p_value),
        ),
        further_trials: further,
        alarms_raised: standing.raised,
        alarm: standing.alarm_basis.as_ref().map(|basis| SummaryAlarm {
            message: basis.message.clone(),
            details: AlarmDetails::new(rule, standing.rate_index.1, values, basis),
        }),
        last_cleared: standing.last_alarm.map(|(raised, cleared)| SummarySpan {
            raised: raised.to_string(),
            cleared: cleared.to_string(),
        }),
        groups: standing.groups.iter().zip(impacts).map(|(one, impact)| group(rule, one, impact)).collect(),
    }
}

fn group(rule: &Rule, one: &GroupStanding, impact: Option<ImpactRatio>) -> SummaryGroup {
    SummaryGroup {
        group: by_column(&rule.groups, &one.values),
        numerator: one.numerator,
        trials: one.denominator,
        share: one.share,
        interval: one.interval.map(ends),
        estimate: one.estimate.filter(|_| rule.guarantee.is_none()),
        pending: one.pending,
        unknown: one.unknown,
        is_compared: one.has_evidence,
        impact: impact.map(|impact| SummaryImpact {
            favourable_share: impact.favourable,
            ratio: impact.ratio,
            is_under_four_fifths: impact.is_under_four_fifths,
            shortfall: impact.shortfall,
            is_under_two_percent: impact.is_small,
        }),
    }
}

fn ends(Interval { low, high }: Interval) -> [f64; 2] {
    [low, high]
}
