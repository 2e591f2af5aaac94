//! How every group stands at the end of a run, as a table for people.

use std::fmt::Write;

use fairstream_fairness::{GroupStanding, Judge, Standing};

use crate::progress::{counted, grouped};

/// Strata of one rate that are shown; what a person still reads.
const SHOWN: usize = 20;

/// A table for each rate, those with alarms first.
pub(crate) fn describe(judge: &Judge, so_far: &str, alarming: impl Fn(&str) -> String) -> String {
    let mut standings = judge.standings();
    let mut text = String::new();
    if judge.raised() == 0 {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "no alarm{so_far}");
    }
    standings.sort_by_key(|standing| (standing.stratum.is_some(), standing.alarm.is_none()));
    let hidden = standings.len().saturating_sub(SHOWN);
    for standing in standings.iter().take(SHOWN) {
        text.push('\n');
        let state = match (standing.alarm, standing.raised) {
            (Some(since), _) => alarming(&format!("ALARM since {}", since.for_people())),
            (None, 0) => "no alarm".to_owned(),
            (None, 1) => "no alarm any more; one was raised".to_owned(),
            (None, raised) => format!("no alarm any more; {} were raised", grouped(raised)),
        };
        let _ = writeln!(text, "{}: {state}", standing.title);
        table(&mut text, standing);
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

fn table(text: &mut String, standing: &Standing) {
    let _ = writeln!(text, "  {}", standing.question);
    let width = standing.groups.iter().map(|group| group.group.chars().count()).max().unwrap_or(0).max(5);
    let pending = standing.groups.iter().any(|group| group.pending > 0);
    for group in &standing.groups {
        let GroupStanding { group: name, numerator, denominator, shown, has_evidence, .. } = group;
        let basis = match standing.is_mean {
            true => counted(*denominator, "trial"),
            false => format!("{} of {}", grouped(*numerator as u64), grouped(*denominator)),
        };
        let waiting = if pending { format!("  {} pending", grouped(group.pending)) } else { String::new() };
        let evidence = if *has_evidence { "" } else { "  not enough evidence" };
        let _ = writeln!(text, "  {name:<width$}  {shown:>8}  {basis}{waiting}{evidence}");
    }
}
