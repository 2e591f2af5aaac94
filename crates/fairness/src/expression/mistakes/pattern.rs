//! What is wrong with a regular expression, and where.

use super::Mistake;
use crate::expression::lexeme::Lexeme;

/// The error of a pattern in quotes, if it has one.
pub(super) fn mistake(quoted: &Lexeme<'_>) -> Option<Mistake> {
    let pattern = quoted.pattern();
    let error = regex_syntax::parse(pattern).err()?;
    let (span, kind) = match &error {
        regex_syntax::Error::Parse(error) => (*error.span(), error.kind().to_string()),
        regex_syntax::Error::Translate(error) => (*error.span(), error.kind().to_string()),
        _ => return None,
    };
    let begin = quoted.range.start + 1;
    let range =
        begin + span.start.offset..begin + span.end.offset.max(span.start.offset + 1).min(pattern.len());
    let help = if kind.contains("look-around") {
        "write two conditions, as in `name matches \"A\" and name not matches \"B\"`"
    } else if kind.contains("missing expression") {
        "with a dot before it, as in `.*`, it is any text"
    } else {
        "with `\\` before it, as in `\\(`, a character stands for itself"
    };
    Some(Mistake { range, message: format!("this is no regular expression: {kind}"), help: help.to_owned() })
}
