//! Messages of alarms.

use fairstream_core::{Time, brief};

use super::{AlarmBasis, AlarmedGroup, Counts, Gap, GroupEstimate, Rule, RuleRate};
use crate::Comparison;

/// The message of an alarm by the rule of the paper that is raised; or cleared, if it was active `since` a time.
pub(crate) fn change(
    rule: &Rule,
    rate: &RuleRate,
    stratum: &str,
    gap: &Gap<'_>,
    since: Option<Time>,
) -> String {
    let compared = match (gap.highest, gap.lowest) {
        (Some(highest), Some(lowest)) => Some(comparison(rule, rate, gap.size, highest, lowest)),
        _ => None,
    };
    let what = match compared {
        Some(compared) => {
            let limit = match (rule.comparison, since) {
                (Comparison::Ratio, None) => format!("less than {}", rule.tolerance),
                (Comparison::Ratio, Some(_)) => format!("no less than {}", rule.clear),
                (_, None) => format!("more than {}", rule.tolerance),
                (_, Some(_)) => format!("no more than {}", rule.clear),
            };
            let within = rule.window_in_words().map(|window| format!("{window}, ")).unwrap_or_default();
            format!("{within}{compared}, {limit}")
        }
        None => "there is not enough evidence any more".to_owned(),
    };
    let since = since.map(|since| format!(" (alarm since {})", rule.when(since))).unwrap_or_default();
    format!("{}{}: {what}{since}", rate.title, stratum_suffix(&rule.strata, stratum))
}

/// The message of an alarm with a guarantee that is raised. The e-value is about all groups together; those of the
/// basis contributed most to it.
pub(crate) fn raised_by_evidence(rule: &Rule, rate: &RuleRate, stratum: &str, basis: &AlarmBasis) -> String {
    let of_late = match basis.blocks {
        None => String::new(),
        Some(1) => "in the last block, ".to_owned(),
        Some(blocks) => format!("in the last {blocks} blocks, "),
    };
    let so_far = match basis.groups.as_slice() {
        [] => "there is nothing to compare".to_owned(),
        groups => of_shares(rule, rate, basis.gap, groups, |group| counts_in_words(rate, group)),
    };
    // Rates may change, so that groups that differed in the blocks are close in the sum.
    let at_times = match rule.comparison {
        _ if basis.groups.is_empty() || rule.is_violated(basis.gap) => "",
        Comparison::Ratio => " in all, but less at times",
        Comparison::Difference | Comparison::Highest => " in all, but more at times",
    };
    let tolerance = rule.tolerance;
    let beyond = match (rule.comparison, rule.reference_label()) {
        (Comparison::Difference, None) => format!("groups differ by more than {tolerance}"),
        (Comparison::Difference, Some(reference)) => {
            format!("a group differs from {reference} by more than {tolerance}")
        }
        (Comparison::Ratio, None) => format!("a group has less than {tolerance} of another"),
        (Comparison::Ratio, Some(reference)) => {
            format!("the ratio of a group and {reference} is less than {tolerance}")
        }
        (Comparison::Highest, _) => format!("a group has more than {tolerance}"),
    };
    format!(
        "{}{}: {of_late}{so_far}{at_times}; that {beyond} has an e-value of {}, an alarm at {}",
        rate.title,
        stratum_suffix(&rule.strata, stratum),
        significant_exp(basis.log_e_value.unwrap_or_default()),
        significant_exp(basis.log_threshold.unwrap_or_default())
    )
}

/// The message of an alarm with a guarantee that is cleared: the counts, since the evidence for fairness began,
/// of the groups that it was about.
pub(super) fn cleared_by_evidence(
    rule: &Rule,
    rate: &RuleRate,
    stratum: &str,
    gap: f64,
    groups: &[AlarmedGroup],
    since: Time,
) -> String {
    let tolerance = rule.tolerance;
    let within = match rule.comparison {
        Comparison::Difference => format!("they differ by less than {tolerance} again"),
        Comparison::Ratio => format!("none has less than {tolerance} of the other again"),
        Comparison::Highest => format!("it is less than {tolerance} again"),
    };
    let counts = |group: &AlarmedGroup| counts_in_words(rate, group);
    let compared = of_shares(rule, rate, gap, groups, counts);
    format!(
        "{}{}: of late, {compared}; there is enough evidence that {within} (alarm since {})",
        rate.title,
        stratum_suffix(&rule.strata, stratum),
        rule.when(since)
    )
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

/// The shares of one or two groups, the higher first, with what `basis` says of their counts.
fn of_shares(
    rule: &Rule,
    rate: &RuleRate,
    gap: f64,
    groups: &[AlarmedGroup],
    basis: impl Fn(&AlarmedGroup) -> String,
) -> String {
    let named = |group: &AlarmedGroup| match group.share {
        Some(share) => format!("{} {} ({})", label(&group.values), number(share, rate), basis(group)),
        None => format!("{} ({})", label(&group.values), basis(group)),
    };
    match (groups, rule.comparison) {
        ([high, low, ..], Comparison::Difference) => {
            format!("{} and {} differ by {}", named(high), named(low), number(gap, rate))
        }
        ([high, low, ..], Comparison::Ratio) => format!("{} is {gap:.3} of {}", named(low), named(high)),
        (groups, _) => groups.first().map(named).unwrap_or_default(),
    }
}

/// `M 0.500 (5 of 10)`
fn group_in_words(rate: &RuleRate, group: &str, counts: Counts) -> String {
    let group = AlarmedGroup::new(group, counts.numerator, counts.denominator);
    match group.share {
        Some(share) => {
            format!("{} {} ({})", label(&group.values), number(share, rate), counts_in_words(rate, &group))
        }
        None => format!("{} (no trials)", label(&group.values)),
    }
}

/// `5 of 10`
fn counts_in_words(rate: &RuleRate, group: &AlarmedGroup) -> String {
    match (rate.is_mean, group.denominator) {
        (_, 0) => "no trials".to_owned(),
        (true, 1) => "1 trial".to_owned(),
        (true, trials) => format!("{trials} trials"),
        (false, trials) => format!("{} of {trials}", group.numerator),
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

/// A number of unknown magnitude, to at most four significant digits: `23.37`, `0.04279`, `1.2e9`.
pub fn significant(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return format!("{number}");
    }
    let size = number.abs().log10().floor();
    if !(-4.0..7.0).contains(&size) {
        let text = format!("{number:.3e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        return scientific(digits, exponent);
    }
    let text = format!("{number:.*}", (3.0 - size).max(0.0) as usize);
    match text.contains('.') {
        true => without_zeros(&text).to_owned(),
        false => text,
    }
}

/// A positive number that is known by its natural logarithm, to four significant digits: `40.3`, `1.2e9`, `3.1e4021`,
/// `1e-400`. Neither overflows nor becomes 0, except where the logarithm itself is infinite.
pub fn significant_exp(log: f64) -> String {
    if log.is_nan() {
        return "nan".to_owned();
    }
    if log.is_infinite() {
        return if log > 0.0 { "infinite" } else { "0" }.to_owned();
    }
    // Beyond this a float has fewer digits, or none.
    const PLAIN: f64 = 700.0;
    if log.abs() < PLAIN {
        // Rounded first: logarithms that differ by rounding alone give one text, also for a number such as 1234.5.
        let number = format!("{:.11e}", log.exp()).parse().unwrap_or_else(|_| log.exp());
        return significant(number);
    }
    let log10 = log * std::f64::consts::LOG10_E;
    let exponent = log10.floor();
    let digits = format!("{:.3}", 10_f64.powf(log10 - exponent));
    match digits.as_str() {
        "10.000" => scientific("1", &format!("{}", exponent + 1.0)),
        digits => scientific(digits, &format!("{exponent}")),
    }
}

fn scientific(digits: &str, exponent: &str) -> String {
    format!("{}e{exponent}", without_zeros(digits))
}

fn without_zeros(decimals: &str) -> &str {
    match decimals.contains('.') {
        true => decimals.trim_end_matches('0').trim_end_matches('.'),
        false => decimals,
    }
}

/// How many characters of a value are shown.
const LONGEST: usize = 100;

/// The values of a JSON array, as they are shown: whatever they are, they cannot break a message.
fn values(array: &str) -> Vec<String> {
    let values: Vec<serde_json::Value> = serde_json::from_str(array).unwrap_or_default();
    let text = |value: &serde_json::Value| match value.as_str() {
        Some(text) => brief(text, LONGEST).into_owned(),
        None => value.to_string(),
    };
    values.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever the logarithm, the text is a number that is close to the one that it is the logarithm of.
        #[test]
        fn a_logarithm_is_written_as_its_number(log in prop_oneof![-1e6..1e6_f64, -800.0..800.0_f64, -20.0..20.0_f64]) {
            let text = significant_exp(log);
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let digits: f64 = digits.parse().unwrap();
            let exponent: f64 = exponent.parse().unwrap();
            prop_assert!(digits > 0.0 && text.len() < 16, "{}", text);
            let read = digits.ln() + exponent * std::f64::consts::LN_10;
            prop_assert!((read - log).abs() < 6e-4, "{} for {}", text, log);
        }

        /// Rounding of the logarithm does not show.
        #[test]
        fn a_number_and_its_logarithm_are_one_text(number in 1_u32..2_000_000) {
            let half = f64::from(number) / 2.0;
            prop_assert_eq!(significant_exp(half.ln()), significant(half));
            prop_assert_eq!(significant_exp(-(1.0 / half).ln()), significant(half));
        }
    }

    #[test]
    fn numbers_of_every_size() {
        for (log10, text) in [
            (0.0, "1"),
            (1.605_305, "40.3"),
            (9.079_181_25, "1.2e9"),
            (400.0, "1e400"),
            (4_021.491_361_7, "3.1e4021"),
            (-400.0, "1e-400"),
            (-2.0, "0.01"),
            (999.999_999_9, "1e1000"),
        ] {
            assert_eq!(significant_exp(log10 * std::f64::consts::LN_10), text, "{log10}");
        }
        assert_eq!(significant_exp(f64::INFINITY), "infinite");
        assert_eq!(significant_exp(f64::NEG_INFINITY), "0");
    }
}
