//! The state of every group at the end of a run, as a table.

use std::fmt::Write;

use fairstream_fairness::{
    Comparison, GroupStanding, ImpactRatio, Interval, Judge, Outcome, Rule, Standing, StandingOutline,
    StrataAssessment, significant_exp,
};

use crate::left_out;
use crate::progress::{counted, grouped};

/// Maximum number of strata of one rate that are shown.
const SHOWN: usize = 20;

/// A table for each rate, those with alarms first.
pub(crate) fn describe(judge: &Judge, so_far: &str, alarming: impl Fn(&str) -> String) -> String {
    let mut outlines = judge.outlines();
    let mut text = String::new();
    if !judge.has_groups() {
        let _ = writeln!(text, "no trial was counted{so_far}");
    } else if judge.raised() == 0 {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "no alarm{so_far}");
    }
    outlines.sort_by_key(|outline| (outline.alarm.is_none(), outline.has_strata));
    let hidden = outlines.len().saturating_sub(SHOWN);
    for standing in outlines.iter().take(SHOWN).filter_map(|outline| judge.standing(outline)) {
        let standing = &standing;
        text.push('\n');
        let rule = &judge.rules()[standing.rate_index.0];
        let state = match (standing.alarm, standing.raised) {
            (None, 0) if standing.assessment.is_some() => outcome(standing),
            (Some(since), _) => {
                alarming(&format!("ALARM since {}", rule.when(since))) + &worse_off(rule, standing)
            }
            // With a guarantee, there is an assessment from the first trial on.
            (None, 0) if rule.guarantee.is_some() => "not enough evidence yet".to_owned(),
            (None, 0) => "no alarm".to_owned(),
            (None, raised) => cleared(rule, standing, raised),
        };
        let _ = writeln!(text, "{}: {state}", standing.title);
        table(&mut text, rule, standing);
    }
    for sentence in any_stratum(judge).into_iter().chain(left_out::sentences(judge)) {
        let _ = writeln!(text, "\n{sentence}");
    }
    if hidden > 0 {
        let _ = writeln!(
            text,
            "\n{} more strata are not shown; `--to '-?select=changes'` has all",
            grouped(hidden as u64)
        );
    }
    text
}

/// A sentence for each rate of which all strata together are unfair, though none alone has enough evidence.
pub(crate) fn any_stratum(judge: &Judge) -> Vec<String> {
    let mut sentences = Vec::new();
    for (number, rule) in judge.rules().iter().enumerate() {
        for (rate, of_rate) in rule.rates.iter().enumerate() {
            let is_of_rate = |outline: &StandingOutline<'_>| outline.rate_index == (number, rate);
            let has_alarm =
                || judge.outlines().iter().any(|outline| is_of_rate(outline) && outline.raised > 0);
            let together = judge.assess_strata(number, rate).filter(StrataAssessment::is_any_unfair);
            if let Some(together) = together
                && !has_alarm()
            {
                sentences.push(format!(
                    "{}: at least one of the {} strata is unfair, though there is not enough evidence yet of which (e-value of \
                     all together {}, above {})",
                    of_rate.title,
                    grouped(together.strata),
                    significant_exp(together.log_e_value),
                    significant_exp(together.log_threshold)
                ));
            }
        }
    }
    sentences
}

/// The conclusion from the evidence, if no alarm is active.
fn outcome(standing: &Standing) -> String {
    let Some(assessment) = &standing.assessment else { return String::new() };
    match assessment.outcome {
        _ if assessment.log_threshold.is_none() => {
            "not judged: more strata than `guarantee` is for".to_owned()
        }
        Outcome::NotYet { further: Some(further) } => {
            format!(
                "{}; about {} more would settle it at this gap",
                assessment.verdict(),
                counted(further, "trial")
            )
        }
        _ => assessment.verdict().to_owned(),
    }
}

/// The numbers behind the outcome.
fn evidence(text: &mut String, rule: &Rule, standing: &Standing) {
    let Some(assessment) = &standing.assessment else { return };
    let mut parts = Vec::new();
    if let Some(gap) = standing.gap {
        let word = match standing.comparison {
            Comparison::Difference => "gap",
            Comparison::Ratio => "ratio",
            Comparison::Highest => "highest",
        };
        match assessment.gap {
            Some(Interval { low, high }) => {
                parts.push(format!("{word} {gap:.3}, between {low:.3} and {high:.3}"));
            }
            None if rule.window.is_some() => parts.push(format!("{word} {gap:.3}")),
            None => {}
        }
    }
    if let Some(log_threshold) = assessment.log_threshold {
        let (e_value, threshold) = (significant_exp(assessment.log_e_value), significant_exp(log_threshold));
        // Alarms of other hypotheses lower the threshold at any time; an alarm needs new evidence.
        let is_due = standing.alarm.is_none() && assessment.log_e_value > log_threshold;
        let when = if is_due { " with the next block" } else { "" };
        parts.push(format!("e-value {e_value}, an alarm at {threshold}{when}"));
    }
    if let Some(log_p_value) = assessment.log_p_value {
        let unadjusted = if rule.shares_guarantee() { ", not adjusted for the others" } else { "" };
        parts.push(format!("p {}{unadjusted}", significant_exp(log_p_value)));
    }
    parts.push(counted(assessment.blocks, "block"));
    let _ = writeln!(text, "  {}", parts.join("; "));
}

/// The group that was worse off when the alarm was raised, if the file says whether the rate is good.
fn worse_off(rule: &Rule, standing: &Standing) -> String {
    let rate = &rule.rates[standing.rate_index.1];
    let group = standing.alarm_basis.as_ref().and_then(|basis| basis.worse_off(rate));
    group.map(|group| format!("; worse off then: {}", group.label())).unwrap_or_default()
}

/// An alarm was raised, and none is now.
fn cleared(rule: &Rule, standing: &Standing, raised: u64) -> String {
    let last =
        standing.last_alarm.map(|(from, to)| format!(" from {} to {}", rule.when(from), rule.when(to)));
    let last = last.unwrap_or_default();
    match raised {
        1 => format!("no alarm now; one was raised{last}"),
        raised => format!("no alarm now; {} earlier, the last{last}", counted(raised, "alarm")),
    }
}

/// The impact ratio of a group, with what it means.
fn in_words(impact: &ImpactRatio) -> String {
    let Some(ratio) = impact.ratio else { return String::new() };
    let mut text = format!("  impact ratio {ratio:.3}");
    if impact.is_under_four_fifths {
        text += &format!(", {} short of four fifths", grouped(impact.shortfall));
    }
    if impact.is_small {
        text += ", under 2 % of the trials";
    }
    text
}

fn table(text: &mut String, rule: &Rule, standing: &Standing) {
    let _ = writeln!(text, "  {}", standing.question);
    let width = standing.groups.iter().map(|group| group.group.chars().count()).max().unwrap_or(0).max(5);
    let pending = standing.groups.iter().any(|group| group.pending > 0);
    let unknown = standing.groups.iter().any(|group| group.unknown > 0);
    let basis = |group: &GroupStanding| match standing.is_mean {
        true => counted(group.denominator, "trial"),
        false => format!("{} of {}", grouped(group.numerator as u64), grouped(group.denominator)),
    };
    let is_estimated = standing.is_estimated();
    let bases = standing.groups.iter().map(|group| basis(group).chars().count()).max().unwrap_or(0);
    // A metric of ratios is about them; others have them in the summary.
    let impacts = standing.impact_ratios(rule).filter(|_| rule.comparison == Comparison::Ratio);
    let impacts = impacts.unwrap_or_default().into_iter().chain(std::iter::repeat(None));
    for (group, impact) in standing.groups.iter().zip(impacts) {
        let GroupStanding { group: name, shown, has_evidence, is_reference, .. } = group;
        let mut waiting =
            if pending { format!("  {} pending", grouped(group.pending)) } else { String::new() };
        if unknown {
            waiting += &format!("  {} unknown", grouped(group.unknown));
        }
        let mut evidence = if *has_evidence { "" } else { "  too few trials" }.to_owned();
        if *is_reference {
            evidence += "  reference";
        }
        let impact = impact.map(|impact| in_words(&impact)).unwrap_or_default();
        let interval =
            group.interval.map(|Interval { low, high }| format!("  between {low:.3} and {high:.3}"));
        let interval = interval.unwrap_or_default();
        let estimate = if is_estimated { format!("  estimate {}", group.compared()) } else { String::new() };
        let basis = basis(group);
        let line = format!(
            "  {name:<width$}  {shown:>8}  {basis:<bases$}{waiting}{estimate}{interval}{impact}{evidence}"
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    if let Some(reason) = standing.without_reference(rule) {
        let _ = writeln!(text, "  {reason}");
    }
    evidence(text, rule, standing);
}
