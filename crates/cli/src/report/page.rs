//! The content of a report page.

use fairstream_core::RunCounts;
use fairstream_fairness::{
    AlarmSpan, ChainHead, Comparison, Compiled, Description, GroupStanding, ImpactRatio, Interval, Judge,
    Outcome, Rule, Standing, significant, significant_exp, when,
};
use fairstream_report::{Alarm, Group, Page, Section, State};

use super::figure::figure;
use super::words::{certainty, sentence, verdict};
use super::{SHOWN, Subject, rate_history, worst_first};
use crate::left_out;
use crate::progress::{counted, grouped};

/// The data of a page.
pub(crate) struct PageData<'a> {
    pub(crate) judge: &'a Judge,
    pub(crate) compiled: &'a Compiled,
    pub(crate) counts: &'a RunCounts,
    pub(crate) subject: &'a Subject,
    pub(crate) is_complete: bool,
}

impl PageData<'_> {
    pub(crate) fn page(&self) -> Page {
        let PageData { judge, compiled, counts, subject, is_complete, .. } = self;
        let standings = worst_first(judge);
        let description = Description::of(compiled.file());
        let sections: Vec<Section> = standings
            .iter()
            .take(SHOWN)
            .map(|standing| {
                let judged = description.metrics.get(standing.rate_index.0);
                let judged = judged.map(|(_, sentences)| sentences.join(" ")).unwrap_or_default();
                section(judge, standing, counts, judged)
            })
            .collect();
        let all = |states: &[State]| sections.iter().all(|section| states.contains(&section.state));
        let state = match () {
            () if standings.iter().any(|standing| standing.alarm.is_some()) => State::Unfair,
            () if standings.iter().any(|standing| standing.raised > 0) => State::Cleared,
            () if !sections.is_empty() && all(&[State::Fair]) => State::Fair,
            () if !sections.is_empty() && all(&[State::Fair, State::NoAlarm]) => State::NoAlarm,
            () => State::Unknown,
        };
        let reached =
            counts.reached.map_or_else(|| "nothing".to_owned(), |reached| when(reached, judge.by_rows()));
        let so_far = if *is_complete { "" } else { "; the run was stopped before the end of its input" };
        let first = standings.first();
        Page {
            title: compiled.file().title().to_owned(),
            subtitle: format!("{}, up to {reached}{so_far}", counted(counts.evaluated, "event")),
            state,
            question: first.map(|standing| standing.question.clone()).unwrap_or_default(),
            verdict: verdict(judge, &standings),
            certainty: first
                .map(|standing| certainty(&judge.rules()[standing.rate_index.0], standing))
                .unwrap_or_default(),
            trial: description.trial,
            left_out: standings.len().saturating_sub(SHOWN),
            sections,
            quality: self.quality(&standings),
            texts: vec![
                (format!("The fairness file, {}", subject.file), subject.text.clone()),
                ("The RTLola specification it is compiled to".to_owned(), compiled.rtlola().to_owned()),
            ],
            again: subject.command.clone(),
            made_by: format!("Written by fairstream {}.", env!("CARGO_PKG_VERSION")),
        }
    }

    /// The table of data quality: rows that were read, rejected and left out.
    fn quality(&self, standings: &[Standing]) -> Vec<(String, String)> {
        let PageData { judge, counts, subject, .. } = self;
        let row = |name: &str, value: String| (name.to_owned(), value);
        let mut groups: Vec<&str> = standings
            .iter()
            .flat_map(|standing| &standing.groups)
            .map(|group| group.values.as_str())
            .collect();
        groups.sort_unstable();
        groups.dedup();
        let late = format!("{}, {} of them too late", grouped(counts.rejected), grouped(counts.late));
        let mut rows = vec![
            row("read from", subject.inputs.join(", ")),
            row("SHA-256 of the fairness file", subject.sha256()),
            row("rows read", grouped(counts.read)),
            row("rejected", late),
            row("outside of the span", grouped(counts.outside)),
            row("judged", counted(counts.evaluated, "event")),
            row("groups", grouped(groups.len() as u64)),
            row(
                "in no trial",
                match left_out::sentences(judge) {
                    none if none.is_empty() => "0 rows".to_owned(),
                    sentences => sentences.join("; "),
                },
            ),
        ];
        for (name, hash) in subject.input_hashes() {
            rows.extend(hash.map(|hash| row(&format!("SHA-256 of {name}"), hash)));
        }
        if let Some(ChainHead { rows: recorded, hash }) = judge.recorded() {
            rows.push(row(
                "evidence",
                format!("{}, the last with the hash {hash}", counted(*recorded, "row")),
            ));
        }
        if counts.dropped > 0 {
            rows.push(row("lost by a live input", counted(counts.dropped, "row")));
        }
        rows
    }
}

fn section(judge: &Judge, standing: &Standing, counts: &RunCounts, judged: String) -> Section {
    let rule = &judge.rules()[standing.rate_index.0];
    let rate_history = rate_history(judge, standing);
    Section {
        title: standing.title.clone(),
        question: standing.question.clone(),
        state: state(rule, standing),
        verdict: sentence(judge, standing),
        judged,
        figure: rate_history.and_then(|rate_history| figure(rule, standing, rate_history, counts.reached)),
        counted: if standing.is_mean { "sum" } else { "positive" }.to_owned(),
        groups: groups(rule, standing),
        parameters: parameters(rule, standing),
        alarms: rate_history
            .map_or(&[][..], |rate_history| &rate_history.alarms)
            .iter()
            .map(|span| alarm(rule, span))
            .collect(),
    }
}

fn state(rule: &Rule, standing: &Standing) -> State {
    let compared = standing.groups.iter().filter(|group| group.has_evidence).count();
    match standing.assessment.as_ref().map(|assessment| assessment.outcome) {
        _ if standing.alarm.is_some() => State::Unfair,
        _ if standing.raised > 0 => State::Cleared,
        Some(Outcome::Fair) => State::Fair,
        Some(_) => State::Unknown,
        None if rule.reference.is_some() && standing.gap.is_none() => State::Unknown,
        // The rule of the paper gives no confidence that a system without an alarm is fair.
        None if compared > 1 || rule.comparison == Comparison::Highest && compared > 0 => State::NoAlarm,
        None => State::Unknown,
    }
}

fn alarm(rule: &Rule, span: &AlarmSpan) -> Alarm {
    let many = if span.count > 1 { format!(" ({} merged)", grouped(span.count)) } else { String::new() };
    Alarm {
        since: format!("{}{many}", rule.when(span.since)),
        trials: counted(span.trials, "trial"),
        until: span.until.map_or_else(String::new, |until| rule.when(until)),
        message: span.basis.message.clone(),
    }
}

fn groups(rule: &Rule, standing: &Standing) -> Vec<Group> {
    let impacts = standing.impact_ratios(rule).unwrap_or_default();
    let impacts = impacts.into_iter().chain(std::iter::repeat(None));
    standing.groups.iter().zip(impacts).map(|(one, impact)| group(rule, standing, one, impact)).collect()
}

fn group(rule: &Rule, standing: &Standing, one: &GroupStanding, impact: Option<ImpactRatio>) -> Group {
    let has_unknown = standing.groups.iter().any(|group| group.unknown > 0);
    let pending = if rule.has_horizon { grouped(one.pending) } else { String::new() };
    let positives = if standing.is_mean { significant(one.numerator) } else { grouped(one.numerator as u64) };
    Group {
        name: one.group.clone(),
        trials: grouped(one.denominator),
        positives,
        pending,
        unknown: if has_unknown { grouped(one.unknown) } else { String::new() },
        impact: impact
            .and_then(|impact| impact.ratio)
            .map_or_else(String::new, |ratio| format!("{ratio:.3}")),
        shortfall: impact
            .filter(|impact| impact.is_under_four_fifths)
            .map_or_else(String::new, |impact| grouped(impact.shortfall)),
        share: one.shown.clone(),
        estimate: if standing.is_estimated() { one.compared().to_owned() } else { String::new() },
        interval: one
            .interval
            .map_or_else(String::new, |Interval { low, high }| format!("{low:.3} and {high:.3}")),
        remark: match impact.is_some_and(|impact| impact.is_small) {
            _ if !one.has_evidence && one.is_reference => "reference; too few trials".to_owned(),
            _ if one.is_reference => "reference".to_owned(),
            _ if !one.has_evidence => "too few trials".to_owned(),
            true => "under 2 % of the trials".to_owned(),
            false => String::new(),
        },
    }
}

fn parameters(rule: &Rule, standing: &Standing) -> Vec<[String; 3]> {
    let row = |name: &str, value: String, meaning: &str| [name.to_owned(), value, meaning.to_owned()];
    let tolerance = match (rule.comparison, &rule.reference) {
        (Comparison::Difference, None) => "ε: estimates of two groups may differ by this much",
        (Comparison::Difference, Some(_)) => {
            "ε: the estimate of a group may differ from that of the reference by this much"
        }
        (Comparison::Ratio, None) => "the lowest estimate may be this share of the highest",
        (Comparison::Ratio, Some(_)) => {
            "of the estimates of a group and the reference, the lower may be this share of the higher"
        }
        (Comparison::Highest, _) => "no estimate may be higher than this",
    };
    let mut rows = vec![row("tolerance", rule.tolerance.to_string(), tolerance)];
    rows.extend(
        rule.reference_label()
            .map(|reference| row("reference", reference, "the group that each other is compared with")),
    );
    if rule.guarantee.is_none() {
        let clear = match rule.comparison {
            Comparison::Ratio => "an alarm is cleared once the ratio is no less than this",
            _ => "an alarm is cleared once the gap is no more than this",
        };
        rows.push(row("clear", rule.clear.to_string(), clear));
    }
    if rule.confidence > 0.0 {
        let computed = standing.groups.iter().find_map(|group| group.prior);
        let prior = match (computed, rule.prior) {
            (Some(prior), _) => format!("{} at present", significant(prior)),
            (None, prior) => prior.map(|prior| prior.to_string()).unwrap_or_default(),
        };
        let about = match rule.prior {
            Some(_) => "γ: the estimate before the first trial",
            None => "γ: the rate of all groups together",
        };
        rows.push(row("prior", prior, about));
        rows.push(row("confidence", rule.confidence.to_string(), "κ: the weight of the prior, in trials"));
    }
    if let Some(window) = rule.window_in_words() {
        let about = match rule.guarantee {
            Some(_) => "rates are of the trials counted in this time; the evidence is of all trials",
            None => "rates are of the trials counted in this time",
        };
        rows.push(row("window", window, about));
    }
    if rule.min_trials > 0 {
        rows.push(row(
            "min_trials",
            rule.min_trials.to_string(),
            "a group with fewer trials is not compared",
        ));
    }
    if let Some(assessment) = &standing.assessment {
        let e_value = significant_exp(assessment.log_e_value);
        rows.push(row(
            "e-value",
            e_value,
            "how many times likelier the outcomes are under our estimate than under the closest fair system",
        ));
        if let Some(log_threshold) = assessment.log_threshold {
            rows.push(row(
                "threshold",
                significant_exp(log_threshold),
                "an alarm is raised when the e-value exceeds this",
            ));
        }
        if let Some(log_p_value) = assessment.log_p_value {
            rows.push(row(
                "p-value",
                significant_exp(log_p_value),
                match rule.shares_guarantee() {
                    true => {
                        "upper bound on the chance that a fair system ever shows this much evidence here; not adjusted for the \
                         other strata, rates and comparisons, as the threshold is"
                    }
                    false => "upper bound on the chance that a fair system ever shows this much evidence",
                },
            ));
        }
    }
    rows
}
