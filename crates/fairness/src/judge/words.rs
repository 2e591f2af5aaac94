//! Messages of alarms.

use fairstream_core::Time;

use super::{Counts, Gap, GroupEstimate, Rule, RuleRate};
use crate::Comparison;

/// The message of an alarm that is raised; or cleared, if it was active `since` a time.
pub(crate) fn change(
    rule: &Rule,
    rate: &RuleRate,
    stratum: &str,
    gap: &Gap<'_>,
    evidence: Option<(f64, f64)>,
    since: Option<Time>,
) -> String {
    let suffix = stratum_suffix(&rule.strata, stratum);
    let compared = match (gap.highest, gap.lowest) {
        (Some(highest), Some(lowest)) => Some(comparison(rule, rate, gap.size, highest, lowest)),
        _ => None,
    };
    let what = if rule.guarantee.is_some() {
        let (e_value, threshold) = evidence.unwrap_or_default();
        let so_far = compared.unwrap_or_else(|| "there is nothing to compare".to_owned());
        // The e-value is about all groups together, not only the two that are furthest apart.
        let tolerance = rule.tolerance;
        let (beyond, within) = match rule.comparison {
            Comparison::Difference => (
                format!("groups differ by more than {tolerance}"),
                format!("groups differ by no more than {tolerance}"),
            ),
            Comparison::Ratio => (
                format!("a group has less than {tolerance} of another"),
                format!("no group has less than {tolerance} of another"),
            ),
            Comparison::Highest => {
                (format!("a group has more than {tolerance}"), format!("no group has more than {tolerance}"))
            }
        };
        match since {
            None => format!(
                "{so_far}; that {beyond} has an e-value of {}, an alarm at {}",
                significant(e_value),
                significant(threshold)
            ),
            Some(_) => format!("{so_far}; of late {within}"),
        }
    } else if let Some(compared) = compared {
        let limit = match (rule.comparison, since) {
            (Comparison::Ratio, None) => format!("less than {}", rule.tolerance),
            (Comparison::Ratio, Some(_)) => format!("no less than {}", rule.clear),
            (_, None) => format!("more than {}", rule.tolerance),
            (_, Some(_)) => format!("no more than {}", rule.clear),
        };
        format!("{compared}, {limit}")
    } else {
        "there is not enough evidence any more".to_owned()
    };
    let since = since.map(|since| format!(" (alarm since {})", since.for_people())).unwrap_or_default();
    format!("{}{suffix}: {what}{since}", rate.title)
}

/// ` in department = "A"`, or nothing.
pub(crate) fn stratum_suffix(columns: &[String], stratum: &str) -> String {
    let values = values(stratum);
    if columns.is_empty() || values.is_empty() {
        return String::new();
    }
    let pairs: Vec<String> =
        columns.iter().zip(&values).map(|(column, value)| format!("{column} {value}")).collect();
    format!(" in {}", pairs.join(", "))
}

/// The shares of two groups and what is compared: the shares, or the estimates where they differ from them.
fn comparison(
    rule: &Rule,
    rate: &RuleRate,
    gap: f64,
    highest: GroupEstimate<'_>,
    lowest: GroupEstimate<'_>,
) -> String {
    let [(high, high_estimate), (low, low_estimate)] = [highest, lowest]
        .map(|(group, counts, estimate)| (group_in_words(rate, group, counts), number(estimate, rate)));
    let is_share = |(_, counts, estimate): GroupEstimate<'_>| {
        counts.share().is_some_and(|share| number(share, rate) == number(estimate, rate))
    };
    let gap = number(gap, rate);
    match (rule.comparison, is_share(highest) && is_share(lowest)) {
        (Comparison::Difference, true) => format!("{high} and {low} differ by {gap}"),
        (Comparison::Difference, false) => {
            format!("{high} and {low}, estimated at {high_estimate} and {low_estimate}, differ by {gap}")
        }
        (Comparison::Ratio, true) => format!("{low} is {gap} of {high}"),
        (Comparison::Ratio, false) => {
            format!("{low}, estimated at {low_estimate}, is {gap} of {high}, estimated at {high_estimate}")
        }
        (Comparison::Highest, true) => high,
        (Comparison::Highest, false) => format!("{high}, estimated at {high_estimate}"),
    }
}

/// `M 0.500 (5 of 10)`
fn group_in_words(rate: &RuleRate, group: &str, counts: Counts) -> String {
    let of = match (rate.is_mean, counts.denominator) {
        (true, 1) => "1 trial".to_owned(),
        (true, trials) => format!("{trials} trials"),
        (false, trials) => format!("{} of {trials}", counts.numerator),
    };
    match counts.share() {
        Some(share) => format!("{} {} ({of})", label(group), number(share, rate)),
        None => format!("{} (no trials)", label(group)),
    }
}

/// The values of a group or stratum as a label.
pub(crate) fn label(group: &str) -> String {
    values(group).join(", ")
}

/// An estimate or a gap, with three decimals.
pub(super) fn number(number: f64, rate: &RuleRate) -> String {
    let unit = rate.unit.map(|unit| format!(" {}", unit.name())).unwrap_or_default();
    format!("{number:.3}{unit}")
}

/// A number of unknown magnitude, to four significant digits: `23.37`, `0.04279`, `1.2e9`.
pub fn significant(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return format!("{number}");
    }
    let size = number.abs().log10().floor();
    if !(-4.0..7.0).contains(&size) {
        return format!("{number:.3e}");
    }
    let text = format!("{number:.*}", (3.0 - size).max(0.0) as usize);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// The values of a JSON array.
fn values(array: &str) -> Vec<String> {
    let values: Vec<serde_json::Value> = serde_json::from_str(array).unwrap_or_default();
    let text = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    values.iter().map(text).collect()
}
