//! Errors of the RTLola frontend, as problems in the fairness file that the text was compiled from: where the user wrote
//! it, in the words of conditions, with a way out.

use std::ops::Range;

use fairstream_core::nearest;

use super::functions;
use super::inputs::{BoundInput, InputOrigin};
use super::text::{self, SourceMapping};
use crate::Problem;
use crate::file::FairnessFile;

/// An error of the frontend: a range of the RTLola text, and the message.
type FrontendError = (Range<usize>, String);

/// What an error may refer to.
pub(super) struct Blame<'a> {
    pub(super) file: &'a FairnessFile,
    pub(super) rtlola: &'a str,
    pub(super) mappings: &'a [SourceMapping],
    pub(super) inputs: &'a [BoundInput],
}

impl Blame<'_> {
    /// The problems where the user wrote what the frontend refuses; none if no part of it comes from the fairness file.
    pub(super) fn problems(&self, errors: &[FrontendError]) -> Vec<Problem> {
        // The two sides of a conflict of types are one problem: the same types in the same line.
        let mut conflicts: Vec<(&str, usize)> = Vec::new();
        let mut problems: Vec<Problem> = Vec::new();
        for (there, message) in errors {
            let Some(problem) = self.problem(there, message) else { continue };
            if is_conflict(message) {
                let before = self.file.text().get(..problem.at.start).unwrap_or_default();
                let types = message.split(": found ").next().unwrap_or_default();
                let conflict = (types, before.matches('\n').count());
                if conflicts.contains(&conflict) {
                    continue;
                }
                conflicts.push(conflict);
            }
            problems.push(problem);
        }
        if problems.is_empty() {
            // The error spans a whole stream: point to the part of it that the user wrote.
            let around = errors.iter().filter_map(|(there, message)| {
                Some((there.len(), self.problem_at(text::within(self.mappings, there)?, message)))
            });
            problems.extend(around.min_by_key(|(length, _)| *length).map(|(_, problem)| problem));
        }
        if problems.is_empty() {
            problems.extend(self.conflict_of_columns(errors));
        }
        problems
    }

    fn problem(&self, there: &Range<usize>, message: &str) -> Option<Problem> {
        // The frontend lists every token that it would have accepted.
        if !message.starts_with("expected ") {
            return Some(self.problem_at(text::locate(self.mappings, there)?, message));
        }
        let help = "write a condition as in 'event == \"SCREEN\" and score > 6'";
        Some(match text::locate(self.mappings, there) {
            Some(at) => Problem::new(at, "a condition cannot go on like this").help(help),
            None => {
                let at = text::before(self.mappings, there.start)?;
                Problem::new(at, "the end of this is missing").help(help)
            }
        })
    }

    /// The message of the frontend in other words.
    fn problem_at(&self, at: Range<usize>, message: &str) -> Problem {
        if message.starts_with("In pacing type analysis") {
            let help = "`.hold(or: …)` behind a column is its last value: `score.hold(or: 0)`";
            return Problem::new(at, "this does not have a value at every check").help(help);
        }
        let message = message.strip_prefix("In value type analysis:").unwrap_or(message).trim();
        if let Some((found, wanted)) = conflict(message) {
            let help = self.help_for_types(&at, found, wanted);
            return Problem::new(at, conflict_in_words(found, wanted)).help(help);
        }
        if let Some(function) = between(message, "function name `", "`") {
            return functions::unknown(at, function);
        }
        if message.starts_with("Invalid numeric literal") {
            let help = "whole numbers go up to 9223372036854775807, others have up to 28 digits";
            return Problem::new(at, "this number is too large").help(help);
        }
        if let Some(name) = between(message, "name `", "` does not exist") {
            let columns = self.inputs.iter().map(BoundInput::name);
            let help = match nearest(name, columns) {
                Some(near) => format!("did you mean `{near}`?"),
                None => {
                    format!("a column of this name stands in backticks, text in double quotes: \"{name}\"")
                }
            };
            return Problem::new(at, format!("there is no column `{name}`")).help(help);
        }
        let help = "write it otherwise, as in 'event == \"SCREEN\" and score > 6'";
        Problem::new(at, message).help(help)
    }

    /// What to do where there is one type and another is needed.
    fn help_for_types(&self, at: &Range<usize>, found: &str, wanted: &str) -> String {
        let text = self.file.text();
        // With escapes, the place is the whole condition.
        let written = text.get(at.clone()).filter(|written| !written.contains('\\')).unwrap_or_default();
        let (before, after) =
            (text.get(..at.start).unwrap_or_default(), text.get(at.end..).unwrap_or_default());
        let (before, after) = (before.trim_end(), after.trim_start());
        let unquoted = written.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        let is_number = |text: &str| text.parse::<f64>().is_ok();
        let is_negated = before.ends_with('!') || before.ends_with("not");
        let is_comparison = before.ends_with(['=', '<', '>', '≠', '≤', '≥']);
        let is_equality =
            is_comparison && !["<=", ">=", "<", ">", "≤", "≥"].iter().any(|end| before.ends_with(end));
        let is_name = !written.is_empty() && written.chars().all(|c| c.is_alphanumeric() || c == '_');
        let name = if is_name { written } else { "score" };
        let bits = ["&", "|", "^"].into_iter().find(|bits| after.starts_with(bits) || before.ends_with(bits));
        match (kind(found), kind(wanted), unquoted) {
            (TypeKind::Text, TypeKind::Whole, _) if wanted == "Numeric" => {
                "text is compared as a whole, with `==` and `!=`, or with a pattern: `name matches \"^A\"`"
                    .to_owned()
            }
            (TypeKind::Text, TypeKind::Whole | TypeKind::Decimal, Some(number)) if is_number(number) => {
                format!("write {number} without quotes")
            }
            (TypeKind::Text, TypeKind::Whole | TypeKind::Decimal, Some(_)) => {
                "compare with a number, or give the column the type String in [events.columns]".to_owned()
            }
            (TypeKind::Text, TypeKind::Truth, Some(truth @ ("true" | "false"))) => {
                format!("write `{truth}` without quotes")
            }
            (_, TypeKind::Truth, _) if is_equality && written.trim_matches('"') == "1" => {
                "write `true`".to_owned()
            }
            (_, TypeKind::Truth, _) if is_equality && written.trim_matches('"') == "0" => {
                "write `false`".to_owned()
            }
            (_, TypeKind::Truth, _) if is_comparison => {
                "a column of type Bool is a condition itself: leave the comparison out".to_owned()
            }
            (TypeKind::Whole | TypeKind::Decimal | TypeKind::Text, TypeKind::Truth, None) if is_negated => {
                format!("`not` is for what follows directly: write `not ({written} …)` around the comparison")
            }
            (_, TypeKind::Truth, _) if is_number(written) || unquoted.is_some() => {
                format!(
                    "name the column again, as in `column == {written}`, or write a list: `column in [{written}]`"
                )
            }
            (TypeKind::Whole | TypeKind::Decimal, TypeKind::Truth, _) => {
                format!("compare it, as in `{name} > 0`")
            }
            (TypeKind::Text, TypeKind::Truth, None) => format!("compare it, as in `{name} == \"yes\"`"),
            (TypeKind::Whole | TypeKind::Decimal, TypeKind::Text, None) if is_number(written) => {
                format!("write \"{written}\"; or give the column a type of numbers in [events.columns]")
            }
            (TypeKind::Truth, TypeKind::Whole | TypeKind::Decimal, _) if bits.is_some() => match bits {
                Some("&") => "`&` is of bits: write `and`".to_owned(),
                Some("|") => "`|` is of bits: write `or`".to_owned(),
                _ => "`^` is of bits: write `**` for powers, `!=` for one of two conditions".to_owned(),
            },
            (TypeKind::Truth, TypeKind::Whole, _) => {
                "`if … then 1 else 0` makes a number of a condition".to_owned()
            }
            (TypeKind::Truth, TypeKind::Decimal, _) => {
                "`if … then 1.0 else 0.0` makes a number of a condition".to_owned()
            }
            (TypeKind::Text, TypeKind::Whole | TypeKind::Decimal, None) if written.contains(['(', ' ']) => {
                "write a number in place of the text".to_owned()
            }
            (TypeKind::Text, TypeKind::Whole | TypeKind::Decimal, None) => {
                "text is compared as a whole, with `==` and `!=`, or with a pattern: `name matches \"^A\"`"
                    .to_owned()
            }
            (TypeKind::Whole, TypeKind::Whole, _) if wanted.starts_with("UInt") => {
                format!("give the column the type Int64 in [events.columns]: {wanted} has no numbers below 0")
            }
            (TypeKind::Whole, TypeKind::Decimal, _) if is_number(written) => format!("write {written}.0"),
            (TypeKind::Whole, TypeKind::Decimal, _) | (TypeKind::Decimal, TypeKind::Whole, _) => {
                "write its numbers with decimals, as in 2.0, and convert columns of whole numbers, as in \
                 `cast<Int64, Float64>(score)`"
                    .to_owned()
            }
            (TypeKind::Missing, ..) => {
                "say what holds in place of none: `score.hold(or: 0)`, `.defaults(to: 0)`".to_owned()
            }
            (_, TypeKind::Missing, _) => "leave `.defaults(…)` out: this always has a value".to_owned(),
            _ => "give both one type in [events.columns], or convert one: `cast<Int64, Float64>(score)`"
                .to_owned(),
        }
    }

    /// A conflict of types that is told of columns alone: it is in an expression that reads all of them.
    fn conflict_of_columns(&self, errors: &[FrontendError]) -> Option<Problem> {
        let mut columns: Vec<(&BoundInput, &str, &str)> = Vec::new();
        for (there, message) in errors {
            let declaration = self.rtlola.get(there.clone())?;
            let declaration = declaration.strip_prefix("input ").unwrap_or(declaration);
            let stream = declaration.split([' ', ':']).next()?;
            let input = self.inputs.iter().find(|input| input.stream == stream)?;
            let (found, wanted) = conflict(message)?;
            columns.push((input, found, wanted));
        }
        let reads = |name: &str| {
            let is_column =
                |input: &BoundInput| matches!(&input.origin, InputOrigin::Column(column) if column == name);
            columns.iter().any(|(input, ..)| is_column(input))
        };
        let (first, found, wanted) = columns.first()?;
        let expressions = self.file.expressions();
        let with_all = |count: usize| count == columns.len();
        let expression = expressions
            .into_iter()
            .find(|expression| with_all(expression.names.iter().filter(|name| reads(&name.text)).count()))?;
        let name = expression.names.iter().find(|name| name.text == first.name())?;
        let at = expression.span(name).range();
        Some(match columns.get(1) {
            Some((second, other, _)) => {
                let message = format!("`{}` is {found}, and `{}` is {other}", first.name(), second.name());
                let help = match (kind(found), kind(other)) {
                    (TypeKind::Truth, _) | (_, TypeKind::Truth) => {
                        "a column of type Bool is a condition itself, and compared with another such column"
                            .to_owned()
                    }
                    _ => "give both one type in [events.columns]".to_owned(),
                };
                Problem::new(at, message).help(help)
            }
            None => {
                let message = format!("`{}` is {found}, and {} is needed", first.name(), in_words(wanted));
                let help = match kind(wanted) {
                    TypeKind::Decimal => format!("write `cast<{found}, Float64>({})`", first.name()),
                    _ => format!(
                        "give it another type in [events.columns], or convert it: `cast<{found}, …>({})`",
                        first.name()
                    ),
                };
                Problem::new(at, message).help(help)
            }
        })
    }
}

/// The types of RTLola, as far as conditions tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TypeKind {
    Truth,
    Whole,
    Decimal,
    Text,
    /// May have no value.
    Missing,
    Other,
}

fn kind(data_type: &str) -> TypeKind {
    match data_type {
        "Bool" => TypeKind::Truth,
        "String" | "Sequence" | "Bytes" => TypeKind::Text,
        "FractionalNumeric" => TypeKind::Decimal,
        data_type if data_type.starts_with("Float") || data_type.starts_with("Fixed") => TypeKind::Decimal,
        data_type if data_type.starts_with("Option") => TypeKind::Missing,
        data_type if data_type.contains("Int") || data_type.ends_with("Numeric") => TypeKind::Whole,
        _ => TypeKind::Other,
    }
}

fn in_words(data_type: &str) -> &str {
    match (kind(data_type), data_type) {
        (TypeKind::Truth, _) => "a condition",
        (TypeKind::Text, _) => "text",
        (TypeKind::Decimal, _) => "a number with decimals",
        (TypeKind::Whole, "Numeric") => "a number",
        (TypeKind::Whole, _) => "a whole number",
        (TypeKind::Missing, _) => "a value that may be missing",
        (TypeKind::Other, data_type) => data_type,
    }
}

fn conflict_in_words(found: &str, wanted: &str) -> String {
    match (kind(found), kind(wanted)) {
        // Either of them may be the type that is needed.
        (TypeKind::Whole, TypeKind::Decimal) | (TypeKind::Decimal, TypeKind::Whole) => {
            "whole numbers and numbers with decimals do not go together here".to_owned()
        }
        (own, other) if own == other => format!("this is {found}, and {wanted} is needed"),
        _ => format!("this is {}, and {} is needed", in_words(found), in_words(wanted)),
    }
}

fn is_conflict(message: &str) -> bool {
    message.contains("Found incompatible types: ")
}

/// The type that is there and the type that is needed, in a message such as `Found incompatible types: Int64 and String:
/// found String here`.
fn conflict(message: &str) -> Option<(&str, &str)> {
    let (types, found) = message.split_once("Found incompatible types: ")?.1.split_once(": found ")?;
    let (one, other) = types.split_once(" and ")?;
    let found = found.strip_suffix(" here")?;
    Some((found, if found == one { other } else { one }))
}

fn between<'a>(text: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    Some(text.split_once(begin)?.1.split_once(end)?.0)
}
