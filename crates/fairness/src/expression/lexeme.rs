//! Splits the text of an expression into words, numbers, texts and operators, whether or not it is RTLola.

use std::ops::Range;

use super::scan::{Scanner, is_of_word};

/// A part of an expression that has no parts itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lexeme<'a> {
    pub(super) text: &'a str,
    pub(super) range: Range<usize>,
    pub(super) kind: LexemeKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LexemeKind {
    /// A name, keyword or function.
    Word,
    /// A name in backticks.
    Column,
    Number,
    /// A text in double quotes, or one that does not end.
    Text,
    /// A text in other quotes.
    OtherText,
    /// An operator, parenthesis or bracket.
    Symbol,
}

/// Operators of more than one character, of RTLola and of other languages, the longest first.
const OPERATORS: [&str; 17] =
    ["===", "!==", "==", "!=", "<=", ">=", "=>", "=<", "<>", "<<", ">>", "&&", "||", "->", "**", "::", ".."];

/// Quotes of typography that end a text, by those that begin it.
const QUOTES: [(char, &[char]); 4] =
    [('“', &['”', '"']), ('„', &['“', '”', '"']), ('‘', &['’', '\'']), ('«', &['»'])];

/// The parts of an expression in their order, without spaces.
pub(super) fn lexemes(text: &str) -> Vec<Lexeme<'_>> {
    let mut found = Vec::new();
    let mut rest = Scanner { text, at: 0 };
    while let Some(c) = rest.peek() {
        let start = rest.at;
        let kind = match c {
            c if c.is_whitespace() => {
                rest.at += c.len_utf8();
                continue;
            }
            '"' => {
                rest.string('"');
                LexemeKind::Text
            }
            '\'' => {
                rest.string('\'');
                LexemeKind::OtherText
            }
            '`' => {
                rest.quoted();
                LexemeKind::Column
            }
            c if c.is_ascii_digit() => {
                rest.number();
                LexemeKind::Number
            }
            c if is_of_word(c) => {
                rest.take_while(|c| is_of_word(c) || c == '\'');
                LexemeKind::Word
            }
            c => match QUOTES.iter().find(|(begin, _)| *begin == c) {
                Some((_, ends)) => {
                    rest.at += c.len_utf8();
                    rest.take_while(|c| !ends.contains(&c));
                    rest.at += rest.peek().map_or(0, char::len_utf8);
                    LexemeKind::OtherText
                }
                None => {
                    let operator = OPERATORS.iter().find(|operator| rest.left().starts_with(**operator));
                    rest.at += operator.map_or(c.len_utf8(), |operator| operator.len());
                    LexemeKind::Symbol
                }
            },
        };
        found.push(Lexeme { text: &text[start..rest.at], range: start..rest.at, kind });
    }
    found
}

impl Lexeme<'_> {
    pub(super) fn is(&self, symbol: &str) -> bool {
        self.kind == LexemeKind::Symbol && self.text == symbol
    }

    /// Whether it is this word, in small letters or capitals.
    pub(super) fn is_word(&self, word: &str) -> bool {
        self.kind == LexemeKind::Word && self.text.eq_ignore_ascii_case(word)
    }

    /// The name of a column or stream, if it may be one.
    pub(super) fn name(&self) -> Option<&str> {
        match self.kind {
            LexemeKind::Word => Some(self.text),
            LexemeKind::Column => Some(self.text.trim_matches('`')),
            _ => None,
        }
    }

    /// What is between the quotes of a text.
    pub(super) fn unquoted(&self) -> &str {
        self.text.trim_matches(|c: char| "\"'“”„‘’«»".contains(c))
    }

    /// What is between the double quotes of a text.
    pub(super) fn pattern(&self) -> &str {
        let text = self.text.strip_prefix('"').unwrap_or(self.text);
        text.strip_suffix('"').unwrap_or(text)
    }

    /// Whether an operand may end with it.
    pub(super) fn ends_operand(&self) -> bool {
        match self.kind {
            LexemeKind::Symbol => [")", "]", "⊤", "⊥"].contains(&self.text),
            _ => true,
        }
    }
}
