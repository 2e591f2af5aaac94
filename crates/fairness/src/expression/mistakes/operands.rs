//! Mistakes in operands: missing ones, too many, parentheses that do not match.

use super::{INFIX_WORDS, Lexemes, Mistake, is_not};
use crate::expression::lexeme::{Lexeme, LexemeKind};

const RELATIONS: [&str; 6] = ["<", "<=", ">", ">=", "≤", "≥"];

/// Operators between two operands, except the minus.
const BINARY: [&str; 26] = [
    "=", "==", "!=", "≠", "<", "<=", ">", ">=", "≤", "≥", "+", "*", "/", "%", "**", "&", "|", "^", "<<",
    ">>", "&&", "||", "∧", "∨", "->", "→",
];

/// Operators between two conditions.
const BOOLEAN: [&str; 6] = ["&&", "||", "∧", "∨", "->", "→"];

impl Lexemes<'_> {
    pub(super) fn parenthesis(&self, index: usize) -> Option<Mistake> {
        let lexeme = self.get(index)?;
        if lexeme.is("(") && self.closing(index, "(", ")").is_none() {
            let help = "write `)` where it ends";
            return Some(Mistake::new(lexeme.range.clone(), "this parenthesis is not closed", help));
        }
        if lexeme.is(")") {
            let count = |symbol: &str| self.all[..=index].iter().filter(|other| other.is(symbol)).count();
            if count(")") > count("(") {
                let help = "leave it out, or write `(` where it begins";
                return Some(Mistake::new(lexeme.range.clone(), "this parenthesis was not opened", help));
            }
        }
        None
    }

    /// An operator without one of its operands.
    pub(super) fn operator_alone(&self, index: usize) -> Option<Mistake> {
        let operator = self.get(index).filter(|_| self.is_binary(index) || self.is_minus(index))?;
        let begins = |at: usize| {
            self.get(at).is_some_and(|lexeme| match lexeme.kind {
                // A positive number; or one without a digit before its point, which is reported as such.
                LexemeKind::Symbol if [".", "+"].contains(&lexeme.text) => {
                    self.get(at + 1).is_some_and(|next| next.kind == LexemeKind::Number)
                }
                LexemeKind::Symbol => {
                    !BINARY.contains(&lexeme.text) && ![")", "]", ",", ":"].contains(&lexeme.text)
                }
                _ => !is_joining(lexeme) && !lexeme.is_word("then") && !lexeme.is_word("else"),
            })
        };
        let is_sign = self.is_minus(index)
            || operator.is("+") && self.get(index + 1).is_some_and(|next| next.kind == LexemeKind::Number);
        let is_before =
            is_sign || self.before(index).is_some_and(|before| before.ends_operand() && !is_keyword(before));
        let is_after = begins(index + 1);
        let side = match (is_before, is_after) {
            (true, true) => return None,
            (true, false) => "after",
            (false, _) => "before",
        };
        let is_boolean = is_joining(operator) || BOOLEAN.contains(&operator.text);
        let percent =
            self.before(index).filter(|_| operator.is("%")).and_then(|share| share.text.parse::<f64>().ok());
        let help = match percent {
            Some(percent) => format!("a share is a number from 0 to 1: {percent} % is {}", percent / 100.0),
            None if is_boolean => format!("as in `score > 5 {} passed`", operator.text),
            None => format!("as in `score {} 5`", operator.text),
        };
        Some(Mistake::new(
            operator.range.clone(),
            format!("something is missing {side} `{}`", operator.text),
            help,
        ))
    }

    /// Two operands without an operator between them.
    pub(super) fn operands_alone(&self, index: usize) -> Option<Mistake> {
        let (before, lexeme) = (self.before(index)?, self.get(index)?);
        let is_word = lexeme.kind != LexemeKind::Symbol
            && !is_keyword(lexeme)
            && !INFIX_WORDS.iter().any(|word| lexeme.is_word(word));
        let is_operand = before.ends_operand()
            && !is_keyword(before)
            && !["in", "matches"].iter().any(|word| before.is_word(word));
        if !is_word || !is_operand {
            return None;
        }
        let help = "as in `a == b` or `a and b`";
        Some(Mistake::new(lexeme.range.clone(), "an operator is missing before this", help))
    }

    fn is_binary(&self, index: usize) -> bool {
        let Some(lexeme) = self.get(index) else { return false };
        match lexeme.kind {
            LexemeKind::Symbol => BINARY.contains(&lexeme.text) && !self.is_of_types(index),
            // `or` may name an argument.
            _ => is_joining(lexeme) && !self.is(index + 1, ":"),
        }
    }

    /// Whether it is a minus between two operands or before one.
    fn is_minus(&self, index: usize) -> bool {
        self.is(index, "-")
    }

    /// Whether it is one of the angle brackets of a conversion.
    fn is_of_types(&self, index: usize) -> bool {
        let open = match self.is(index, "<") {
            true => index,
            false => {
                let is_type = |lexeme: &Lexeme<'_>| lexeme.kind == LexemeKind::Word || lexeme.is(",");
                self.all[..index].iter().rposition(|lexeme| !is_type(lexeme)).unwrap_or_default()
            }
        };
        self.is(open, "<")
            && (self.is(index, "<") || self.is(index, ">"))
            && open > 0
            && self.is_word(open - 1, "cast")
    }

    /// `1 < x < 5`.
    pub(super) fn chain(&self, index: usize) -> Option<Mistake> {
        let is_relation = |index: usize| {
            self.get(index)
                .is_some_and(|lexeme| lexeme.kind == LexemeKind::Symbol && RELATIONS.contains(&lexeme.text))
                && !self.is_of_types(index)
        };
        let ends = |index: usize| {
            self.get(index).is_none_or(|lexeme| {
                is_keyword(lexeme)
                    || ["&&", "||", "∧", "∨", "->", "→", ",", "(", ")", "!"]
                        .iter()
                        .any(|symbol| lexeme.is(symbol))
            })
        };
        let first = self.get(index).filter(|_| is_relation(index))?;
        let depth = self.depth(index);
        let at = (index + 1..self.all.len()).find(|at| {
            self.depth(*at) < depth
                || self.depth(*at) == depth && (is_relation(*at) || ends(*at) && !self.is(*at, "("))
        })?;
        let second = self.get(at).filter(|_| is_relation(at) && at > index + 1)?;
        let (low, high) = (self.before(index)?, self.get(at + 1)?);
        let middle = self.text[first.range.end..second.range.start].trim();
        let is_simple = (index < 2 || ends(index - 2)) && ends(at + 2);
        let (lowest, highest) = if is_simple { (low.text, high.text) } else { ("…", "…") };
        let help = format!("write `{lowest} {} {middle} and {middle} {} {highest}`", first.text, second.text);
        Some(Mistake::new(low.range.start..high.range.end, "a comparison has two sides", help))
    }

    pub(super) fn choice(&self, index: usize) -> Option<Mistake> {
        let word = self.get(index).filter(|word| word.kind == LexemeKind::Word && word.text == "if")?;
        let after = |keyword: &str| self.all[index..].iter().filter(|lexeme| lexeme.is_word(keyword)).count();
        if after("then") >= after("if") && after("else") >= after("if") {
            return None;
        }
        let help =
            "as in `if age < 18 then 0.5 else 1.0`; conditions are joined by `and`, `or` and `implies`";
        Some(Mistake::new(word.range.clone(), "`if` needs `then` and `else`", help))
    }
}

/// Whether it joins two conditions.
fn is_joining(lexeme: &Lexeme<'_>) -> bool {
    ["and", "or", "implies"].iter().any(|word| lexeme.is_word(word))
}

pub(super) fn is_keyword(lexeme: &Lexeme<'_>) -> bool {
    is_joining(lexeme) || is_not(lexeme) || ["if", "then", "else"].iter().any(|word| lexeme.is_word(word))
}
