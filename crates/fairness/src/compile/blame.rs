//! Errors of the RTLola frontend, as problems in the fairness file that the text was compiled from.

use std::ops::Range;

use super::text::{self, SourceMapping};
use crate::Problem;

/// The problems where the user wrote what the frontend refuses; none if no part of it comes from the fairness file.
pub(super) fn problems(mappings: &[SourceMapping], errors: &[(Range<usize>, String)]) -> Vec<Problem> {
    let problem = |(there, message): &(Range<usize>, String)| {
        // The frontend lists every token that it would have accepted.
        if !message.starts_with("expected ") {
            return Some(problem_at(text::locate(mappings, there)?, message));
        }
        let at = text::locate(mappings, there).or_else(|| text::before(mappings, there.start))?;
        let help = "write a condition as RTLola does, such as 'event == \"SCREEN\" and score > 6'";
        Some(Problem::new(at, "this is not RTLola, or the end of it is missing").help(help))
    };
    let mut problems: Vec<Problem> = errors.iter().filter_map(problem).collect();
    if problems.is_empty() {
        // The error spans a whole stream: point to the part of it that the user wrote.
        let around = errors.iter().filter_map(|(there, message)| {
            Some((there.len(), problem_at(text::within(mappings, there)?, message)))
        });
        problems.extend(around.min_by_key(|(length, _)| *length).map(|(_, problem)| problem));
    }
    problems
}

/// The message of the frontend without the name of its component.
fn problem_at(at: Range<usize>, message: &str) -> Problem {
    if message.starts_with("In pacing type analysis") {
        let help = "`.hold(or: …)` behind a column is its last value: `score.hold(or: 0)`";
        return Problem::new(at, "this does not have a value at every check").help(help);
    }
    let message = message.strip_prefix("In value type analysis:").unwrap_or(message).trim();
    Problem::new(at, message)
}
