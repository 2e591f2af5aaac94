//! What the judge says, in sentences.

use fairstream_core::Time;

use super::{Counts, Finding, Found, Rule, RuleRate};
use crate::Comparison;

/// An alarm that is raised, or cleared if it stood `since` a time.
pub(super) fn change(
    rule: &Rule,
    rate: &RuleRate,
    stratum: &str,
    finding: &Finding<'_>,
    since: Option<Time>,
) -> String {
    let place = place(&rule.strata, stratum);
    let who = |of: Option<Found<'_>>| {
        of.map(|(group, counts, estimate)| group_in_words(rate, group, counts, estimate)).unwrap_or_default()
    };
    let (highest, lowest) = (who(finding.highest), who(finding.lowest));
    let gap = number(finding.gap, rate);
    let is_known = finding.highest.is_some();
    let what = match (rule.comparison, since) {
        _ if !is_known => "there is not enough evidence any more".to_owned(),
        (Comparison::Difference, None) => {
            format!("{highest} and {lowest} differ by {gap}, more than {}", rule.tolerance)
        }
        (Comparison::Difference, Some(_)) => {
            format!("{highest} and {lowest} differ by {gap}, no more than {}", rule.clear)
        }
        (Comparison::Ratio, None) => format!("{lowest} is {gap} of {highest}, less than {}", rule.tolerance),
        (Comparison::Ratio, Some(_)) => {
            format!("{lowest} is {gap} of {highest}, no less than {}", rule.clear)
        }
        (Comparison::Highest, None) => format!("{highest}, more than {}", rule.tolerance),
        (Comparison::Highest, Some(_)) => format!("{highest}, no more than {}", rule.clear),
    };
    let since = since.map(|since| format!(" (alarm since {})", since.for_people())).unwrap_or_default();
    format!("{}{place}: {what}{since}", rate.title)
}

/// ` in department = "A"`, or nothing.
pub(super) fn place(columns: &[String], stratum: &str) -> String {
    let values = values(stratum);
    if columns.is_empty() || values.is_empty() {
        return String::new();
    }
    let pairs: Vec<String> =
        columns.iter().zip(&values).map(|(column, value)| format!("{column} {value}")).collect();
    format!(" in {}", pairs.join(", "))
}

fn group_in_words(rate: &RuleRate, group: &str, counts: Counts, estimate: f64) -> String {
    let of = match (rate.is_mean, counts.denominator) {
        (true, 1) => "1 trial".to_owned(),
        (true, trials) => format!("{trials} trials"),
        (false, trials) => format!("{} of {trials}", counts.numerator),
    };
    format!("{} {} ({of})", label(group), number(estimate, rate))
}

/// The values of a group or stratum, as people read them.
pub(super) fn label(group: &str) -> String {
    values(group).join(", ")
}

/// An estimate or a gap, to three digits.
pub(super) fn number(number: f64, rate: &RuleRate) -> String {
    let unit = rate.unit.map(|unit| format!(" {}", unit.name())).unwrap_or_default();
    format!("{number:.3}{unit}")
}

/// The values of a JSON array.
fn values(array: &str) -> Vec<String> {
    let values: Vec<serde_json::Value> = serde_json::from_str(array).unwrap_or_default();
    let text = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    values.iter().map(text).collect()
}
