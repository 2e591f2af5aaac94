//! Explains a recomputed alarm in sentences: the question, the guarantee, the counts, and every step of the
//! calculation.

use std::fmt::Write;

use super::bettor::Way;
use super::recompute::{BettorPart, BlockStep, NamedGroup};
use super::replay::{RecomputedAlarm, prior_of};
use crate::judge::words::{label, stratum_suffix};
use crate::unit::in_words;
use crate::{Comparison, Every, Guarantee, Promise, Rule, significant, significant_exp};

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
        Promise::Discoveries(level) => (
            format!("On average at most {} % of such alarms are of systems that are fair.", level * 100.0),
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
    let shared = if alarm.log_threshold > whole.ln() + 1e-9 {
        let of_family = match guarantee.promise {
            Promise::Every { .. } => "",
            Promise::Ever(_) | Promise::Discoveries(_) => ",\n  given those that had an alarm at that time",
        };
        format!("; here above {needed}, since comparisons, rates and strata share the guarantee{of_family}")
    } else {
        String::new()
    };
    let _ = writeln!(text, "  This requires an e-value above {}{shared}.", significant(whole));
    let span = match guarantee.block_span {
        Some(span) if !rule.by_rows => {
            format!(", and sooner if it lasts longer than {} and has trials of two groups", in_words(span))
        }
        _ => String::new(),
    };
    let _ = writeln!(
        text,
        "  It holds if trials are independent of each other, groups are fixed before outcomes are known, and the\n  \
         ends of blocks do not depend on outcomes: trials are taken in the order in which they became final, and a\n  \
         block ends after {} of them{span}.",
        guarantee.block
    );
    how_it_was_calculated(text, rule, guarantee, alarm);
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
    let _ = writeln!(
        text,
        "  The e-value is {}, above the threshold of {needed}: the alarm is raised.",
        significant_exp(alarm.log_evidence)
    );
}

fn how_it_was_calculated(text: &mut String, rule: &Rule, guarantee: Guarantee, alarm: &RecomputedAlarm) {
    let is_detector = matches!(guarantee.promise, Promise::Every { .. });
    let memory = match guarantee.promise {
        Promise::Every { memory: Some(memory), .. } => format!(
            "\n     After each block, all earlier counts are multiplied by {memory} / ({memory} + trials of the block)."
        ),
        _ => String::new(),
    };
    let scaled = match rule.range {
        Some((low, high)) => {
            format!(
                "\n     Numbers and the tolerance are rescaled from the range {low} to {high} to the range 0 to 1."
            )
        }
        None => String::new(),
    };
    let mut ways: Vec<Way> = alarm.parts.iter().map(|part| part.way).collect();
    ways.sort_unstable();
    ways.dedup();
    let ways: String = ways.into_iter().map(|way| format!("\n     {}", formula(way))).collect();
    if rule.range.is_some() {
        return pairs_of_numbers(text, is_detector, &scaled, alarm);
    }
    let whole = if is_detector {
        "4. A new learner begins with every step, and some of the earlier ones are kept. The e-value is the sum over\n     \
         the learners, each of which is an average over its estimates. If the system is fair, this sum grows by at\n     \
         most 1 a step on average."
    } else {
        "4. The e-value of a learner begins at 1 and is multiplied by each factor. If the system is fair, the average of\n     \
         each factor is at most 1, so that a large e-value is unlikely. The e-value of the whole is the average over\n     \
         the estimates and over learners that begin with blocks 1, 6, 11, 21, 41, …, with weights 3/4, 1/8, 1/24, …"
    };
    let _ = writeln!(
        text,
        "\nHow it was calculated\n  \
         1. Before each block, the rate of each group is estimated from the blocks before it:{ways}{memory}{scaled}\n  \
         2. Fair is the closest fair system to that: of all combinations of rates that are fair, the one with the\n     \
         least sum of trials · (estimate · ln(estimate / fair) + (1 - estimate) · ln((1 - estimate) / (1 - fair))).\n  \
         3. The factor of the block is the product over its groups of\n     \
         (estimate / fair)^positives · ((1 - estimate) / (1 - fair))^(trials - positives).\n  \
         {whole}\n"
    );
    parts(text, alarm);
}

/// How the bets on differences of numbers were calculated.
fn pairs_of_numbers(text: &mut String, is_detector: bool, scaled: &str, alarm: &RecomputedAlarm) {
    let whole = if is_detector {
        "3. A new learner begins with every step, and some of the earlier ones are kept. The e-value is the sum over\n     \
         the learners. If the system is fair, this sum grows by at most 1 a step on average."
    } else {
        "3. If the system is fair, the average of each factor is at most 1, so that a large e-value is unlikely. The\n     \
         e-value of the whole is the average over learners that begin with blocks 1, 6, 11, 21, 41, …, with\n     \
         weights 3/4, 1/8, 1/24, …"
    };
    let _ = writeln!(
        text,
        "\nHow it was calculated\n  \
         1. In each block, the first trial of a group is paired with the first of another, the second with the second,\n     \
         and so on. The factor of a pair with the numbers x and y is 1 + λ (x - y - ε).{scaled}\n  \
         2. The e-value of a learner begins at 1. It is the average over both orders of two groups, and over λ = 0.95 /\n     \
         (1 + ε), half of it, a quarter, … (six of them), and over pairs of groups, of which the first has a weight\n     \
         of 3/4, and those that follow 1/2, 1/6, 1/12, … of the rest.\n  \
         {whole}\n"
    );
    parts(text, alarm);
}

/// The largest parts of the e-value.
fn parts(text: &mut String, alarm: &RecomputedAlarm) {
    let mut largest: Vec<&BettorPart> = alarm.parts.iter().collect();
    largest.sort_by(|one, other| {
        (other.log_weight + other.log_evidence).total_cmp(&(one.log_weight + one.log_evidence))
    });
    let _ = writeln!(text, "  {:>11}  {:<28}  {:>8}  {:>9}", "from block", "estimate", "weight", "e-value");
    for part in largest.iter().take(SHOWN) {
        let _ = writeln!(
            text,
            "  {:>11}  {:<28}  {:>8}  {:>9}",
            part.first_block,
            name(part.way),
            significant_exp(part.log_weight),
            significant_exp(part.log_evidence)
        );
    }
    if largest.len() > SHOWN {
        let _ = writeln!(text, "  {:>11}  {} more, which are smaller", "…", largest.len() - SHOWN);
    }
    if let Some((first, way)) = alarm.leader {
        let _ = writeln!(text, "\n  The largest one, {} from block {first} on:\n", name(way));
    }
}

fn name(way: Way) -> &'static str {
    match way {
        Way::Own => "of each group alone",
        Way::TowardsAll => "towards all groups together",
        Way::WithinBlocks => "from differences in blocks",
        Way::TowardsBound => "towards the bound",
        Way::Pairs => "differences of pairs",
    }
}

fn formula(way: Way) -> &'static str {
    match way {
        Way::Own => "of each group alone: (positives + 1) / (trials + 2);",
        Way::TowardsAll => {
            "towards all groups together: (positives + 20 p) / (trials + 20), with p = (positives + 1) / (trials + 2)\n     \
             of all groups;"
        }
        Way::WithinBlocks => {
            "from differences in blocks: the rate of all groups in the last hundred trials or so, plus the mean\n     \
             deviation of the group from its blocks, w · (rate in the block - rate of the block) / (20 + sum of w),\n     \
             with w = trials · (1 - trials / trials of the block);"
        }
        Way::TowardsBound => "towards the bound ε: (positives + 5 ε) / (trials + 5);",
        Way::Pairs => "",
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
            let rate = |rate: f64| if rate.is_nan() { "-".to_owned() } else { format!("{rate:.4}") };
            let row = format!(
                "  {number:>5}  {time:<20}  {:<width$}  {:>6}  {:>9}  {:>8}  {:>6}  {factor:>9}  {evidence:>9}",
                label(&group.group),
                group.trials,
                significant(group.positives),
                rate(group.estimate),
                rate(group.fair),
            );
            let _ = writeln!(text, "{}", row.trim_end());
        }
    }
}
