//! Explains a recomputed alarm in sentences: the question, the guarantee, the counts, and every step of the
//! calculation.

use std::fmt::Write;

use super::recompute::{BlockStep, NamedGroup};
use super::replay::{RecomputedAlarm, prior_of};
use crate::judge::words::{label, stratum_suffix};
use crate::unit::in_words;
use crate::{Comparison, Every, Promise, Rule, significant, significant_exp};

/// Number of blocks shown at either end of a long table.
const SHOWN: usize = 4;

// Writing to a string cannot fail, so the results of `write!` are ignored.

/// The explanation of an alarm.
pub(super) fn narrative(
    rule: &Rule,
    rate: usize,
    stratum: &str,
    alarm: &RecomputedAlarm,
    all: bool,
) -> String {
    let mut text = String::new();
    let (title, question) =
        rule.rates.get(rate).map(|rate| (rate.title.as_str(), rate.question.as_str())).unwrap_or_default();
    let _ = writeln!(text, "What was asked\n  {title}{}: {question}", stratum_suffix(&rule.strata, stratum));
    let _ = writeln!(text, "  {}", fair(rule));
    match rule.guarantee {
        None => by_map(&mut text, rule),
        Some(_) => by_guarantee(&mut text, rule, alarm, all),
    }
    let _ = writeln!(text, "\nCounts at the time of the alarm");
    let width = alarm.groups.keys().map(|group| label(&group.0).chars().count()).max().unwrap_or(0);
    for (group, counts) in &alarm.groups {
        let trials = counts.denominator;
        let share = if trials > 0 { counts.numerator / trials as f64 } else { 0.0 };
        let of = match rule.rates.get(rate).is_some_and(|rate| rate.is_mean) {
            true => format!(
                "{trials} trials with a sum of {}: {share:.3} on average",
                significant(counts.numerator)
            ),
            false => format!("{} of {trials}: {share:.3}", counts.numerator),
        };
        let estimate = match rule.guarantee {
            None if rule.confidence > 0.0 => {
                let (gamma, kappa) = (prior_of(rule, &alarm.groups), rule.confidence);
                let estimate = (counts.numerator + gamma * kappa) / (trials as f64 + kappa);
                let gamma = significant(gamma);
                format!(
                    "; ({} + {gamma} · {kappa}) / ({trials} + {kappa}) = {estimate:.3}",
                    significant(counts.numerator)
                )
            }
            _ => String::new(),
        };
        let small = if trials < rule.min_trials { "; too few to be compared" } else { "" };
        let _ = writeln!(text, "  {:<width$}  {of}{estimate}{small}", label(&group.0));
    }
    text
}

fn fair(rule: &Rule) -> String {
    let groups = rule.groups.join(" and ");
    if let Some(reference) = rule.reference_label() {
        let fair = match rule.comparison {
            Comparison::Ratio => {
                format!("a ratio of at least {}, of the lower rate to the higher", rule.tolerance)
            }
            _ => format!("a difference of at most {}", rule.tolerance),
        };
        return format!("Each group by {groups} compared with {reference}. Fair means {fair}.");
    }
    match rule.comparison {
        Comparison::Difference => {
            format!(
                "Compared between groups by {groups}. Fair means a difference of at most {}.",
                rule.tolerance
            )
        }
        Comparison::Ratio => {
            format!(
                "Compared between groups by {groups}. Fair means that the lowest is at least {} of the highest.",
                rule.tolerance
            )
        }
        Comparison::Highest => {
            format!(
                "Computed for each group by {groups}. Fair means at most {} for every group.",
                rule.tolerance
            )
        }
    }
}

fn by_map(text: &mut String, rule: &Rule) {
    let kappa = rule.confidence;
    let prior = match rule.prior {
        Some(gamma) => format!("with γ = {gamma} and κ = {kappa}"),
        None => format!("with κ = {kappa} and\n  γ the rate of all groups together"),
    };
    let apart = match rule.reference {
        None => "estimates are further apart than the tolerance. The rate of false alarms is not bounded.",
        Some(_) => {
            "an estimate is further from that of the reference than the tolerance. The rate of\n  false alarms is not bounded."
        }
    };
    let _ = writeln!(
        text,
        "\nThe rule\n  The estimate of a group is (positives + γ κ) / (trials + κ), {prior}. An alarm is\n  \
         raised when {apart}",
    );
}

fn by_guarantee(text: &mut String, rule: &Rule, alarm: &RecomputedAlarm, all: bool) {
    let Some(guarantee) = rule.guarantee else { return };
    let (promise, whole) = match guarantee.promise {
        Promise::Ever(level) => (
            format!(
                "The probability that a fair system ever raises such an alarm is at most {} %.",
                level * 100.0
            ),
            1.0 / level,
        ),
        Promise::Every { every, blocks, .. } => {
            let every = match every {
                Every::Trials(trials) => format!("{trials} trials"),
                Every::Time(time) => in_words(time),
            };
            (format!("On average, a fair system raises such an alarm at most once in {every}."), blocks)
        }
    };
    let _ = writeln!(text, "\nThe guarantee\n  {promise}");
    let needed = significant_exp(alarm.log_threshold);
    let shared = if rule.rates.len() > 1 || rule.comparisons > 1 || !rule.strata.is_empty() {
        format!("; here above {needed}, since comparisons, rates and strata share the guarantee")
    } else {
        String::new()
    };
    let _ = writeln!(text, "  This requires an e-value above {}{shared}.", significant(whole));
    let _ = writeln!(
        text,
        "  It holds if trials are independent of each other, groups are fixed before outcomes are known, and the\n  \
         ends of blocks do not depend on outcomes: a block ends at the first check at which it has {} trials or more.",
        guarantee.block
    );
    let (floor, memory) = match guarantee.promise {
        Promise::Ever(_) => ("", String::new()),
        Promise::Every { memory, .. } => (
            " An e-value below 1 is first raised to 1.",
            format!(
                "\n     After each block, all earlier counts are multiplied by {memory} / ({memory} + trials of the block)."
            ),
        ),
    };
    let scaled = match rule.range {
        Some((low, high)) => {
            format!(
                "\n     Numbers and the tolerance are rescaled from the range {low} to {high} to the range 0 to 1."
            )
        }
        None => String::new(),
    };
    let _ = writeln!(
        text,
        "\nHow it was calculated\n  \
         1. The rate of each group is estimated from the blocks before this one:\n     \
         estimate = (positives + 1) / (trials + 2).{memory}{scaled}\n  \
         2. Fair is the closest fair system to that: of all combinations of rates that are fair, the one with the\n     \
         least sum of trials · (estimate · ln(estimate / fair) + (1 - estimate) · ln((1 - estimate) / (1 - fair))).\n  \
         3. The factor of the block is the product over its groups of\n     \
         (estimate / fair)^positives · ((1 - estimate) / (1 - fair))^(trials - positives).\n  \
         4. The e-value begins at 1 and is multiplied by each factor.{floor} It is how many times likelier the\n     \
         outcomes are under our estimate than under the closest fair system. If the system is fair, the average\n     \
         of each factor is at most 1, so that a large e-value is unlikely.\n"
    );
    blocks(text, rule, &alarm.blocks, all);
    let named = |group: &NamedGroup| {
        let side = if group.is_high { "high" } else { "low" };
        let factor = significant_exp(group.log_factor);
        if rule.reference.as_ref() == Some(&group.values) {
            return format!("{}, the reference (a factor of {factor})", label(&group.values));
        }
        format!("{}, too {side} to be fair (a factor of {factor})", label(&group.values))
    };
    let named: Vec<String> = alarm.named.iter().map(named).collect();
    if !named.is_empty() {
        let _ =
            writeln!(text, "\n  The alarm is about those that contributed most: {}.", named.join(", and "));
    }
    if let Some(last) = alarm.blocks.last() {
        let _ = writeln!(
            text,
            "  With block {} the e-value is {}, above the threshold of {needed}: the alarm is raised.",
            last.number,
            significant_exp(last.log_evidence)
        );
    }
}

fn blocks(text: &mut String, rule: &Rule, blocks: &[BlockStep], all: bool) {
    let names =
        blocks.iter().flat_map(|block| &block.groups).map(|group| label(&group.group).chars().count());
    let width = names.max().unwrap_or(0).max(5);
    let _ = writeln!(
        text,
        "  {:>5}  {:<20}  {:<width$}  {:>6}  {:>9}  {:>8}  {:>6}  {:>9}  {:>9}",
        "block", "counted", "group", "trials", "positives", "estimate", "fair", "factor", "e-value"
    );
    let hidden = if all { 0 } else { blocks.len().saturating_sub(2 * SHOWN) };
    for (index, block) in blocks.iter().enumerate() {
        if index == SHOWN && hidden > 1 {
            let _ = writeln!(text, "  {:>5}  {hidden} more blocks; `--all` shows them", "…");
        }
        if hidden > 1 && (SHOWN..SHOWN + hidden).contains(&index) {
            continue;
        }
        for (line, group) in block.groups.iter().enumerate() {
            let (number, time) = match line {
                0 => (block.number.to_string(), rule.when(block.time)),
                _ => Default::default(),
            };
            let (factor, evidence) = match line + 1 == block.groups.len() {
                true => (significant_exp(block.log_factor), significant_exp(block.log_evidence)),
                false => Default::default(),
            };
            let row = format!(
                "  {number:>5}  {time:<20}  {:<width$}  {:>6}  {:>9}  {:>8.4}  {:>6.4}  {factor:>9}  {evidence:>9}",
                label(&group.group),
                group.trials,
                significant(group.positives),
                group.estimate,
                group.fair,
            );
            let _ = writeln!(text, "{}", row.trim_end());
        }
    }
}
