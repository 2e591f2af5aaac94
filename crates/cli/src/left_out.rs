//! Rows that are in no trial, in words; and the error of a run without any trial.

use std::sync::{Mutex, MutexGuard, PoisonError};

use fairstream_fairness::{Compiled, Judge};

use crate::progress::{counted, grouped};

/// A sentence for each reason why rows are in no trial, with their number and share.
pub(crate) fn sentences(judge: &Judge) -> Vec<String> {
    let repeated = judge.repeated_keys().filter(|count| *count > 0).map(|count| {
        format!(
            "{} ({}) with the key of an earlier row: where a trial is one row, only the first of a key counts",
            counted(count, "row"),
            share(count, judge.rows().rows)
        )
    });
    let excepted = Some(judge.rows().excepted).filter(|count| *count > 0).map(|count| {
        format!(
            "{} ({}) with a value that the file leaves out (`except`): {}",
            counted(count, "row"),
            share(count, judge.rows().rows),
            in_no_trial(judge)
        )
    });
    incomplete(judge).map(|(_, sentence)| sentence).chain(excepted).chain(repeated).collect()
}

/// A warning for each column whose values are missing in more than one row in a hundred, so that these are in no trial.
pub(crate) fn warnings(judge: &Judge) -> Vec<String> {
    let is_much = |count: u64| count.saturating_mul(100) > judge.rows().rows;
    let much = incomplete(judge).filter(|(count, _)| is_much(*count));
    much.map(|(_, sentence)| format!("warning: {sentence}")).collect()
}

/// The number of rows that are in no trial because a column has no value, with a sentence, for each such column.
fn incomplete(judge: &Judge) -> impl Iterator<Item = (u64, String)> {
    let rows = judge.rows();
    let key = rows.key.clone().unwrap_or_default();
    let reasons = [
        (rows.without_key, key, "in no trial"),
        (rows.without_group, rows.groups.join("` or `"), in_no_trial(judge)),
    ];
    let all = rows.rows;
    reasons.into_iter().filter(|(count, ..)| *count > 0).map(move |(count, column, so)| {
        (count, format!("{} ({}) without `{column}`: {so}", counted(count, "row"), share(count, all)))
    })
}

fn in_no_trial(judge: &Judge) -> &'static str {
    if judge.rows().groups.len() > 1 { "they are not in every comparison" } else { "they open no trial" }
}

/// The same, briefly, for the line at the end of a run.
pub(crate) fn summary(judge: &Judge) -> String {
    let rows = judge.rows();
    let repeated = match judge.repeated_keys() {
        None | Some(0) => String::new(),
        Some(count) => {
            format!("; {} ({}) with a repeated key", counted(count, "row"), share(count, rows.rows))
        }
    };
    let left_out = match rows.without_key + rows.not_compared {
        0 => String::new(),
        count => {
            format!(
                "; {} ({}) without a key or a group that is compared",
                counted(count, "row"),
                share(count, rows.rows)
            )
        }
    };
    left_out + &repeated
}

fn share(count: u64, rows: u64) -> String {
    let percent = count as f64 * 100.0 / rows.max(1) as f64;
    if percent < 0.1 { "under 0.1 %".to_owned() } else { format!("{percent:.1} %") }
}

/// Why nothing was monitored, if no trial was opened.
pub(crate) fn nothing(compiled: &Compiled, judge: &Judge) -> Option<String> {
    let (file, rows) = (compiled.file(), judge.rows());
    // A check at a period that has not come yet has not seen the trials that are open.
    let is_certain = file.is_checked_at_events() || rows.complete == 0;
    if judge.has_groups() || !is_certain {
        return None;
    }
    if rows.rows == 0 {
        return Some("no event was evaluated, so nothing was monitored".to_owned());
    }
    let names: Vec<String> = rows.columns.iter().map(|column| format!("`{}`", column.name)).collect();
    let condition = file.opens().map(|opens| format!(" and fulfils `{opens}`")).unwrap_or_default();
    let mut text = format!(
        "no trial was opened in {}, so nothing was monitored\na trial is opened by a row that has {}{condition}; {}:",
        counted(rows.rows, "row"),
        names.join(", "),
        match rows.complete {
            0 => "no row has all of them".to_owned(),
            complete => format!("{} of them have these columns", grouped(complete)),
        }
    );
    for line in rows.columns_in_words() {
        text += &format!("\n  {line}");
    }
    Some(text)
}

pub(crate) fn lock(judge: &Mutex<Judge>) -> MutexGuard<'_, Judge> {
    judge.lock().unwrap_or_else(PoisonError::into_inner)
}
