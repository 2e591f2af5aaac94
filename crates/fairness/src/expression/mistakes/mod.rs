//! What users write that is not RTLola, with the way out: operators of other languages, lists and patterns that are
//! incomplete, parentheses that do not match. Finds only what the frontend would refuse, or read as something else.

mod calls;
mod lists;
mod literals;
mod operands;
mod pattern;
mod words;

use std::ops::Range;

use self::words::INFIX_WORDS;
use super::lexeme::{Lexeme, LexemeKind, lexemes};

/// A mistake in an expression, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mistake {
    pub(super) range: Range<usize>,
    pub(super) message: String,
    pub(super) help: String,
}

impl Mistake {
    fn new(range: Range<usize>, message: impl Into<String>, help: impl Into<String>) -> Mistake {
        Mistake { range, message: message.into(), help: help.into() }
    }
}

/// The first mistake. `type_of` has the types of columns.
pub(super) fn first(text: &str, type_of: &dyn Fn(&str) -> Option<String>) -> Option<Mistake> {
    let lexemes = lexemes(text);
    let parts = Lexemes { text, all: &lexemes, type_of };
    let rules = [
        Lexemes::quote,
        Lexemes::number,
        Lexemes::operator,
        Lexemes::infix_word,
        Lexemes::null,
        Lexemes::parenthesis,
        Lexemes::operator_alone,
        Lexemes::operands_alone,
        Lexemes::list,
        Lexemes::pattern,
        Lexemes::method,
        Lexemes::conversion,
        Lexemes::chain,
        Lexemes::choice,
        Lexemes::unquoted_text,
    ];
    rules
        .iter()
        .filter_map(|rule| (0..lexemes.len()).find_map(|index| rule(&parts, index)))
        .min_by_key(|mistake| mistake.range.start)
}

const EQUALITIES: [&str; 4] = ["=", "==", "!=", "≠"];

/// The lexemes of an expression. Every rule looks at one of them and its neighbours.
struct Lexemes<'a> {
    text: &'a str,
    all: &'a [Lexeme<'a>],
    type_of: &'a dyn Fn(&str) -> Option<String>,
}

impl<'a> Lexemes<'a> {
    fn get(&self, index: usize) -> Option<&'a Lexeme<'a>> {
        self.all.get(index)
    }

    fn before(&self, index: usize) -> Option<&'a Lexeme<'a>> {
        self.all.get(index.checked_sub(1)?)
    }

    fn is(&self, index: usize, symbol: &str) -> bool {
        self.get(index).is_some_and(|lexeme| lexeme.is(symbol))
    }

    fn is_word(&self, index: usize, word: &str) -> bool {
        self.get(index).is_some_and(|lexeme| lexeme.is_word(word))
    }

    /// The type of a column, if this is one.
    fn column_type(&self, index: usize) -> Option<String> {
        (self.type_of)(self.get(index)?.name()?)
    }

    /// The column before, as an example.
    fn example(&self, index: usize) -> &'a str {
        let is_name = |lexeme: &&Lexeme<'_>| lexeme.name().is_some();
        self.before(index).filter(is_name).map_or("column", |lexeme| lexeme.text)
    }

    /// How many parentheses and brackets are open.
    fn depth(&self, index: usize) -> usize {
        let opened = self.all[..index].iter().filter(|lexeme| lexeme.is("(") || lexeme.is("[")).count();
        let closed = self.all[..index].iter().filter(|lexeme| lexeme.is(")") || lexeme.is("]")).count();
        opened.saturating_sub(closed)
    }

    /// The bracket that closes the one at an index.
    fn closing(&self, index: usize, open: &str, close: &str) -> Option<usize> {
        let mut depth = 0;
        (index..self.all.len()).find(|index| {
            depth += i32::from(self.is(*index, open)) - i32::from(self.is(*index, close));
            depth == 0
        })
    }

    fn is_method(&self, index: usize) -> bool {
        self.get(index).is_some_and(|lexeme| lexeme.kind == LexemeKind::Word)
            && self.before(index).is_some_and(|before| before.is("."))
    }
}

fn is_not(lexeme: &Lexeme<'_>) -> bool {
    lexeme.is_word("not")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn type_of(name: &str) -> Option<String> {
        let data_type = match name {
            "score" => "Int64",
            "name" | "two words" => "String",
            "passed" => "Bool",
            _ => return None,
        };
        Some(data_type.to_owned())
    }

    const RIGHT: [&str; 16] = [
        "score >= 5 and (passed or not passed) implies !passed -> name == \"a (b\"",
        "`two words` in [\"a, ]\", \"b\"] && name not in [\"x\"] || score in [1, -2, 3]",
        "name matches \"^(a|b)\\\\.$\" and name not matches \"#;?\"",
        "cast<Int64, Float64>(score) / 2.5e-3 < 4.0 and score < 4",
        "if score > 5 then 0.5 else if passed then 1.0 else -score.last(or: 0) * 2.0",
        "score.offset(by: -2).defaults(to: 0) - -1 = abs(score - 5) + min(score, 3) ** 2 % 7",
        "score.hold(or: 0) > 5 ∧ score.is_fresh() ∨ score ≥ 3 and score ≠ 4 → passed",
        "n.aggregate(over_instances: where(p => p > 2), using: max).defaults(to: z) > score.get(or: 1)",
        "score.aggregate(over: 5s, using: sum) > 2 and (score > 3) == passed",
        "score & 4 != 0 and score | 1 > 2 and score >> 2 < 3",
        "true",
        "contains > between and is",
        "passed and matches(name, regex: \"A\") or not matches(name, regex: \"B\") or (cast > (5))",
        "score > +5 and ⊤ and score.offset(by: 0) > -5",
        "(1 < score) == (score < 5)",
        "max(1 + score, 2) < max(3, score) and passed != (score < 3)",
    ];

    #[test]
    fn what_is_right_is_no_mistake() {
        for text in RIGHT {
            assert_eq!(first(text, &type_of), None, "{text}");
        }
    }

    #[test]
    fn no_part_of_an_expression_makes_it_panic() {
        for text in RIGHT {
            let ends = || (0..=text.len()).filter(|end| text.is_char_boundary(*end));
            for (start, end) in ends().flat_map(|start| ends().map(move |end| (start, end))) {
                let part = text.get(start..end).unwrap_or_default();
                if let Some(mistake) = first(part, &type_of) {
                    assert!(mistake.range.end <= part.len().max(1), "{part}");
                }
            }
        }
    }
}
