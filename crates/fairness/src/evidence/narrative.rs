//! Explains a recomputed alarm in sentences: the question, the guarantee, the counts, and every step of the
//! calculation.

use std::fmt::Write;

use super::recompute::BlockStep;
use super::replay::RecomputedAlarm;
use crate::judge::words::{label, place};
use crate::unit::in_words;
use crate::{Comparison, Every, Promise, Rule, significant};

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
    let _ = writeln!(text, "What was asked\n  {title}{}: {question}", place(&rule.strata, stratum));
    let _ = writeln!(text, "  {}", fair(rule));
    match rule.guarantee {
        None => by_map(&mut text, rule),
        Some(_) => by_guarantee(&mut text, rule, alarm, all),
    }
    let _ = writeln!(text, "\nWhat was counted up to then");
    let width = alarm.groups.keys().map(|group| label(group).chars().count()).max().unwrap_or(0);
    for (group, counts) in &alarm.groups {
        let trials = counts.denominator;
        let share = if trials > 0 { counts.numerator / trials as f64 } else { 0.0 };
        let of = match rule.rates.get(rate).is_some_and(|rate| rate.is_mean) {
            true => format!("{trials} trials, {} together: {share:.3} each", significant(counts.numerator)),
            false => format!("{} of {trials}: {share:.3}", counts.numerator),
        };
        let estimate = match rule.guarantee {
            None if rule.confidence > 0.0 => {
                let (gamma, kappa) = (rule.prior, rule.confidence);
                let estimate = (counts.numerator + gamma * kappa) / (trials as f64 + kappa);
                format!(
                    "; ({} + {gamma} · {kappa}) / ({trials} + {kappa}) = {estimate:.3}",
                    significant(counts.numerator)
                )
            }
            _ => String::new(),
        };
        let small = if trials < rule.min_trials { "; too few to be compared" } else { "" };
        let _ = writeln!(text, "  {:<width$}  {of}{estimate}{small}", label(group));
    }
    text
}

fn fair(rule: &Rule) -> String {
    let groups = rule.groups.join(" and ");
    match rule.comparison {
        Comparison::Difference => {
            format!(
                "Compared between groups by {groups}. Fair is a difference of at most {}.",
                rule.tolerance
            )
        }
        Comparison::Ratio => {
            format!(
                "Compared between groups by {groups}. Fair is that the lowest is at least {} of the highest.",
                rule.tolerance
            )
        }
        Comparison::Highest => {
            format!("Asked of each group by {groups}. Fair is at most {} for all of them.", rule.tolerance)
        }
    }
}

fn by_map(text: &mut String, rule: &Rule) {
    let _ = writeln!(
        text,
        "\nThe rule\n  The estimate of a group is (positives + γ κ) / (trials + κ), with γ = {} and κ = {}. There is an alarm\n  \
         when estimates are further apart than the tolerance. No rate of false alarms is promised.",
        rule.prior, rule.confidence
    );
}

fn by_guarantee(text: &mut String, rule: &Rule, alarm: &RecomputedAlarm, all: bool) {
    let Some(guarantee) = rule.guarantee else { return };
    let (promise, whole) = match guarantee.promise {
        Promise::Ever(level) => (
            format!(
                "A fair system ever raises such an alarm with a probability of at most {} %.",
                level * 100.0
            ),
            1.0 / level,
        ),
        Promise::Every { every, blocks, .. } => {
            let every = match every {
                Every::Trials(trials) => format!("{trials} trials"),
                Every::Time(time) => in_words(time),
            };
            (
                format!("A fair system raises such an alarm once in {every} or more seldom, on average."),
                blocks,
            )
        }
    };
    let _ = writeln!(text, "\nWhat was promised\n  {promise}");
    let shared = if rule.rates.len() > 1 || !rule.strata.is_empty() {
        ", after what is shared with other rates and strata"
    } else {
        ""
    };
    let needed = significant(alarm.threshold);
    let _ = writeln!(
        text,
        "  That takes evidence of {} in all; here it takes {needed}{shared}.",
        significant(whole)
    );
    let _ = writeln!(
        text,
        "  It holds if trials are independent of each other, groups are fixed before outcomes are known, and blocks are\n  \
         cut without a look at outcomes: here, at the first check at which a block has {} trials or more.",
        guarantee.block
    );
    let (floor, memory) = match guarantee.promise {
        Promise::Ever(_) => ("", String::new()),
        Promise::Every { memory, .. } => (
            " Evidence below 1 counts as 1 then.",
            format!(
                "\n     What came before is multiplied by {memory} / ({memory} + trials of the block) after each block."
            ),
        ),
    };
    let scaled = match rule.range {
        Some((low, high)) => {
            format!(
                "\n     Numbers are counted as parts of the way from {low} to {high}, the tolerance likewise."
            )
        }
        None => String::new(),
    };
    let _ = writeln!(
        text,
        "\nHow it was calculated\n  \
         1. Before a block is looked at, the blocks before it say what to believe of each group:\n     \
         believed = (positives + 1) / (trials + 2).{memory}{scaled}\n  \
         2. Fair is the nearest that would be fair: of all rates that are fair together those with the least\n     \
         sum of trials · (believed · ln(believed / fair) + (1 - believed) · ln((1 - believed) / (1 - fair))).\n  \
         3. The factor of the block is the product over its groups of\n     \
         (believed / fair)^positives · ((1 - believed) / (1 - fair))^(trials - positives).\n  \
         4. The evidence begins with 1, and is multiplied by each factor.{floor} In a fair system no factor is above 1\n     \
         on average, so that evidence grows by luck alone, and seldom.\n"
    );
    blocks(text, &alarm.blocks, all);
    if let Some(last) = alarm.blocks.last() {
        let _ = writeln!(
            text,
            "\n  With block {} the evidence is {}, and {needed} is enough: that is the alarm.",
            last.number,
            significant(last.log_evidence.exp())
        );
    }
}

fn blocks(text: &mut String, blocks: &[BlockStep], all: bool) {
    let names =
        blocks.iter().flat_map(|block| &block.groups).map(|group| label(&group.group).chars().count());
    let width = names.max().unwrap_or(0).max(5);
    let _ = writeln!(
        text,
        "  {:>5}  {:<20}  {:<width$}  {:>6}  {:>9}  {:>8}  {:>6}  {:>9}  {:>9}",
        "block", "counted", "group", "trials", "positives", "believed", "fair", "factor", "evidence"
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
                0 => (block.number.to_string(), block.time.for_people()),
                _ => Default::default(),
            };
            let (factor, evidence) = match line + 1 == block.groups.len() {
                true => (significant(block.factor), significant(block.log_evidence.exp())),
                false => Default::default(),
            };
            let row = format!(
                "  {number:>5}  {time:<20}  {:<width$}  {:>6}  {:>9}  {:>8.4}  {:>6.4}  {factor:>9}  {evidence:>9}",
                label(&group.group),
                group.trials,
                significant(group.positives),
                group.believed,
                group.fair,
            );
            let _ = writeln!(text, "{}", row.trim_end());
        }
    }
}
