//! Mistakes in operators and words of other languages.

use std::ops::Range;

use super::operands::is_keyword;
use super::{EQUALITIES, Lexemes, Mistake, is_not};
use crate::expression::lexeme::{Lexeme, LexemeKind};

/// Operators of other languages, and what to write instead.
const OTHER_OPERATORS: [(&str, &str); 5] =
    [("=>", ">="), ("=<", "<="), ("<>", "!="), ("===", "=="), ("!==", "!=")];

/// Words of other languages that stand between two operands.
pub(super) const INFIX_WORDS: [&str; 21] = [
    "between",
    "is",
    "contains",
    "includes",
    "has",
    "like",
    "ilike",
    "startswith",
    "starts_with",
    "endswith",
    "ends_with",
    "regexp",
    "rlike",
    "mod",
    "div",
    "xor",
    "equals",
    "eq",
    "in",
    "matches",
    "not",
];

impl Lexemes<'_> {
    pub(super) fn operator(&self, index: usize) -> Option<Mistake> {
        let lexeme = self.get(index)?;
        if lexeme.kind != LexemeKind::Symbol {
            return None;
        }
        // In an aggregation over instances, `=>` is a function.
        let is_function = lexeme.text == "=>" && self.all.iter().any(|other| other.is_word("over_instances"));
        let other = OTHER_OPERATORS.iter().find(|(other, _)| *other == lexeme.text && !is_function);
        let (message, help) = match (other, lexeme.text) {
            (Some((other, own)), _) => (format!("there is no operator `{other}`"), format!("write `{own}`")),
            (None, ";") => ("a condition has no end mark".to_owned(), "leave the `;` out".to_owned()),
            (None, "#") => (
                "a condition has no comments".to_owned(),
                "write the comment after the quotes of the condition, or in a line of its own".to_owned(),
            ),
            (None, "?") => ("there is no operator `?`".to_owned(), "write `if … then … else …`".to_owned()),
            _ => return None,
        };
        Some(Mistake::new(lexeme.range.clone(), message, help))
    }

    /// A word of another language between two operands, which no name can be.
    pub(super) fn infix_word(&self, index: usize) -> Option<Mistake> {
        let word = self.get(index)?;
        let (before, after) = (self.before(index)?, self.get(index + 1)?);
        let known = INFIX_WORDS.iter().find(|known| word.is_word(known))?;
        if !before.ends_operand() || is_keyword(before) || self.is(index + 1, "(") && before.name().is_none()
        {
            return None;
        }
        let (range, name) = (word.range.clone(), before.text);
        let operand = after.kind != LexemeKind::Symbol || ["(", "[", "-"].contains(&after.text);
        let instead = |what: String| {
            Some(Mistake::new(range.clone(), format!("there is no operator `{}`", word.text), what))
        };
        let matching = |begin: &str, end: &str| match after.kind {
            LexemeKind::Text => {
                format!("write `{name} matches \"{begin}{}{end}\"`", escaped(after.unquoted()))
            }
            _ => format!("write a pattern, as in `{name} matches \"{begin}A{end}\"`"),
        };
        match *known {
            "not" if after.is_word("in") || after.is_word("matches") => match word.text {
                "not" => None,
                _ => instead("write `not`".to_owned()),
            },
            "not" if operand => {
                let help = format!("write `!=`, or `not ({name} …)` around a comparison");
                Some(Mistake::new(range, "`not` stands before a condition", help))
            }
            "not" => {
                let help = format!("write `not ({name} {} …)`", after.text);
                Some(Mistake::new(range, "`not` stands before a condition", help))
            }
            "in" | "matches" if word.text != *known => instead(format!("write `{known}`")),
            "in" | "matches" if before.name().is_some() && !self.is_method(index) && !is_not(before) => None,
            "in" | "matches"
                if is_not(before)
                    && self.get(index.wrapping_sub(2)).is_some_and(|lexeme| lexeme.name().is_some()) =>
            {
                None
            }
            "in" => {
                let help = "as in `score in [1, 2]`; what is calculated is compared with `==` and `or`";
                Some(Mistake::new(range, "only a column stands before `in`", help))
            }
            "matches" => {
                let help = "as in `name matches \"^A\"`";
                Some(Mistake::new(range, "only a column stands before `matches`", help))
            }
            "between" => {
                let end = self.get(index + 3).filter(|_| self.is_word(index + 2, "and"));
                let (low, high) = end.map_or(("1", "5"), |high| (after.text, high.text));
                instead(format!("write `{name} >= {low} and {name} <= {high}`"))
            }
            "is" if is_null(after) || after.is_word("not") && self.get(index + 2).is_some_and(is_null) => {
                Some(no_null(word.range.start..self.get(index + 1)?.range.end, name, !after.is_word("not")))
            }
            "is" if after.is_word("not") => instead("write `!=`".to_owned()),
            "is" | "equals" | "eq" => instead("write `==`".to_owned()),
            "mod" => instead("write `%`".to_owned()),
            "div" => instead("write `/`, which cuts the decimals off between integers".to_owned()),
            "xor" => instead("write `!=` between conditions in parentheses".to_owned()),
            "like" | "ilike" => instead(match after.kind {
                LexemeKind::Text => {
                    format!("write `{name} matches \"{}\"`", pattern_of(after.unquoted(), *known == "ilike"))
                }
                _ => format!("write a pattern, as in `{name} matches \"^A\"`"),
            }),
            "startswith" | "starts_with" => instead(matching("^", "")),
            "endswith" | "ends_with" => instead(matching("", "$")),
            "regexp" | "rlike" => instead("write `matches`".to_owned()),
            _ => instead(matching("", "")),
        }
    }

    pub(super) fn null(&self, index: usize) -> Option<Mistake> {
        let lexeme = self.get(index).filter(|lexeme| is_null(lexeme) && self.column_type(index).is_none())?;
        let operator = self.before(index).filter(|before| EQUALITIES.contains(&before.text))?;
        let name = self.example(index - 1);
        Some(no_null(operator.range.start..lexeme.range.end, name, ["=", "=="].contains(&operator.text)))
    }

    /// A column of text that is compared with a word that is no column.
    pub(super) fn unquoted_text(&self, index: usize) -> Option<Mistake> {
        let operator = self.get(index).filter(|operator| EQUALITIES.contains(&operator.text))?;
        let word = self.get(index + 1).filter(|word| word.kind == LexemeKind::Word)?;
        let is_name = !["true", "false", "if", "not"].iter().any(|keyword| word.is_word(keyword))
            && !["(", ".", "<"].iter().any(|symbol| self.is(index + 2, symbol));
        let is_text = self.column_type(index.checked_sub(1)?).as_deref() == Some("String");
        if !is_text
            || !is_name
            || self.column_type(index + 1).is_some()
            || operator.kind != LexemeKind::Symbol
        {
            return None;
        }
        let message = format!("there is no column `{}`", word.text);
        Some(Mistake::new(
            word.range.clone(),
            message,
            format!("text stands in double quotes: \"{}\"", word.text),
        ))
    }
}

fn is_null(lexeme: &Lexeme<'_>) -> bool {
    ["null", "none", "nil", "nan", "na", "missing", "undefined"].iter().any(|null| lexeme.is_word(null))
}

fn no_null(range: Range<usize>, name: &str, is_missing: bool) -> Mistake {
    let (not, no) = if is_missing { ("not ", "no") } else { ("", "a") };
    let help = format!(
        "`{not}{name}.is_fresh()` holds where it has {no} value; other conditions of it do not hold without one"
    );
    Mistake::new(range, "a missing value is equal to nothing", help)
}

/// A text as a pattern that only it matches.
fn escaped(text: &str) -> String {
    let mut pattern = String::new();
    for c in text.chars() {
        if !c.is_alphanumeric() && !c.is_whitespace() && c != '_' && c != '-' {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

/// The pattern of SQL's `like`.
fn pattern_of(like: &str, ignores_case: bool) -> String {
    let (begin, rest) = like.strip_prefix('%').map_or(("^", like), |rest| ("", rest));
    let (rest, end) = rest.strip_suffix('%').map_or((rest, "$"), |rest| (rest, ""));
    let rest = escaped(rest).replace("\\%", ".*").replace('_', ".");
    format!("{}{begin}{rest}{end}", if ignores_case { "(?i)" } else { "" })
}
