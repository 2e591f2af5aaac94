//! Expressions in a fairness file: RTLola, with the names of columns as they are in the data, lists (`in [..]`) and
//! patterns (`matches`) as operators, and integers of several types beside each other and beside floats. Types are left to
//! the RTLola frontend.

mod lexeme;
mod mistakes;
mod scan;

use std::ops::Range;

use self::mistakes::Mistake;
use self::scan::{Scan, is_spaced};
use crate::Problem;
use crate::table::{Located, TextSpan};

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expression {
    /// The text, as the user wrote it or, once it is bound, as RTLola reads it.
    pub(crate) text: String,
    /// Where it is in the fairness file, with its quotes.
    pub(crate) at: TextSpan,
    /// Where its text begins in the fairness file, if it is there letter by letter.
    pub(crate) begins: Option<usize>,
    /// The columns and streams that it reads, each once.
    pub(crate) names: Vec<Name>,
    /// Whether a function of RTLola's module `math` is called.
    pub(crate) calls_math: bool,
    /// Whether a pattern is matched, for which RTLola has a module `regex`.
    pub(crate) matches_pattern: bool,
    tokens: Vec<Token>,
    /// Where the parts of a bound expression come from.
    pub(crate) origins: Vec<PartOrigin>,
}

/// A name in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    /// The name, without backticks.
    pub(crate) text: String,
    /// Its first occurrence.
    range: Range<usize>,
    /// Whether it must have a value at the instant of the evaluation.
    pub(crate) is_sync: bool,
}

/// A part of an expression that binding may change.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Token {
    range: Range<usize>,
    kind: TokenKind,
    /// The number of the clause: clauses are separated by boolean operators.
    clause: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TokenKind {
    /// A name, by its index, and whether a method of it is called.
    Name {
        index: usize,
        is_accessed: bool,
    },
    Integer,
    /// Any other number.
    Float,
    /// A minus, as a sign or between two operands.
    Minus,
    /// An explicit conversion. The numbers of its clause stay as they are.
    Cast,
    /// `name in [..]` or `name not in [..]`, with the ranges of the items.
    OneOf {
        index: usize,
        items: Vec<Range<usize>>,
        is_negated: bool,
    },
    /// `name == ".."` or `name != ".."` with a text that begins with a space, with the range of the text.
    SpacedText {
        index: usize,
        text: Range<usize>,
        is_negated: bool,
    },
    /// `name matches ".."` or `name not matches ".."`, with the range of the pattern.
    Matches {
        index: usize,
        pattern: Range<usize>,
        is_negated: bool,
    },
}

/// A part of a bound expression, and the range in the original text that it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartOrigin {
    pub(crate) bound: Range<usize>,
    pub(crate) original: Range<usize>,
}

/// The stream that a name is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BoundName {
    pub(crate) stream: String,
    pub(crate) data_type: String,
}

impl BoundName {
    fn is_float(&self) -> bool {
        self.data_type.starts_with("Float")
    }

    fn is_integer(&self) -> bool {
        self.data_type.contains("Int")
    }

    fn is_unsigned(&self) -> bool {
        self.data_type.starts_with("UInt")
    }

    /// The stream, converted to that type if it has integers of another.
    fn converted(&self, number_type: Option<&str>) -> String {
        match number_type {
            Some(number_type) if self.is_integer() && self.data_type != number_type => {
                format!("cast<{}, {number_type}>({})", self.data_type, self.stream)
            }
            _ => self.stream.clone(),
        }
    }
}

impl Expression {
    /// `file` is the text that it was read from.
    pub(crate) fn new(text: Located<String>, file: &str) -> Expression {
        let raw = file.get(text.at.range()).unwrap_or_default();
        let quote =
            ["'''", "\"\"\"", "'", "\""].into_iter().find(|quote| raw.starts_with(quote)).unwrap_or("");
        let is_literal = raw.get(quote.len()..quote.len() + text.value.len()) == Some(&text.value);
        let begins = is_literal.then_some(text.at.start + quote.len());
        Expression::scanned(text.value, text.at, begins)
    }

    fn scanned(text: String, at: TextSpan, begins: Option<usize>) -> Expression {
        let Scan { names, tokens, calls_math, matches_pattern, .. } = Scan::of(&text);
        Expression { text, at, begins, names, calls_math, matches_pattern, tokens, origins: Vec::new() }
    }

    /// The position of a name in the file.
    pub(crate) fn span(&self, name: &Name) -> TextSpan {
        self.part(&name.range)
    }

    fn part(&self, range: &Range<usize>) -> TextSpan {
        match self.begins {
            Some(begins) => (begins + range.start..begins + range.end).into(),
            None => self.at.clone(),
        }
    }

    /// What RTLola cannot express or would refuse without a way out. `type_of` has the types of columns.
    pub(crate) fn mistake(&self, type_of: &dyn Fn(&str) -> Option<String>) -> Option<Problem> {
        let Mistake { range, message, help } = mistakes::first(&self.text, type_of)?;
        Some(Problem::new(self.part(&range).range(), message).help(help))
    }

    /// Whether it is nothing but `true`.
    pub(crate) fn is_true(&self) -> bool {
        self.text.trim() == "true"
    }

    /// Its only token, if that is a name.
    pub(crate) fn as_name(&self) -> Option<&str> {
        match (self.names.as_slice(), self.tokens.as_slice()) {
            ([name], [token]) if self.text[token.range.clone()] == *self.text.trim() => Some(&name.text),
            _ => None,
        }
    }

    /// The expression as RTLola reads it, with the streams that its names are bound to; names that are not bound remain.
    pub(crate) fn bound(&self, bind: impl Fn(&str) -> Option<BoundName>) -> Expression {
        let bound: Vec<Option<BoundName>> = self.names.iter().map(|name| bind(&name.text)).collect();
        let mut text = String::new();
        let mut origins = Vec::new();
        let mut end = 0;
        let mut copy = |original: Range<usize>, part: &str| {
            let start = text.len();
            text += part;
            origins.push(PartOrigin { bound: start..text.len(), original });
        };
        for token in &self.tokens {
            copy(end..token.range.start, &self.text[end..token.range.start]);
            end = token.range.end;
            copy(token.range.clone(), &self.bound_token(token, &bound));
        }
        copy(end..self.text.len(), &self.text[end..]);
        if text == self.text {
            return self.clone();
        }
        Expression { origins, ..Expression::scanned(text, self.at.clone(), self.begins) }
    }

    fn bound_token(&self, token: &Token, bound: &[Option<BoundName>]) -> String {
        let written = || self.text[token.range.clone()].to_owned();
        let stream = |index: usize| match &bound[index] {
            Some(bound) => bound.stream.clone(),
            None => self.names[index].text.clone(),
        };
        match &token.kind {
            TokenKind::Name { index, .. } => match &bound[*index] {
                Some(name) => name.converted(self.number_type(token.clause, bound)),
                None => stream(*index),
            },
            TokenKind::Integer if self.number_type(token.clause, bound) == Some("Float64") => {
                format!("{}.0", written())
            }
            TokenKind::Float => decimal(&self.text[token.range.clone()]),
            TokenKind::Integer | TokenKind::Minus | TokenKind::Cast => written(),
            TokenKind::OneOf { items, is_negated, .. } if items.is_empty() => is_negated.to_string(),
            TokenKind::OneOf { index, items, is_negated } => {
                let (equals, joined) = if *is_negated { ("!=", " ∧ ") } else { ("=", " ∨ ") };
                let column = bound[*index].as_ref();
                let items = items.iter().map(|item| &self.text[item.clone()]);
                let (mut is_float, mut is_signed) = (column.is_some_and(BoundName::is_float), false);
                for item in items.clone() {
                    is_signed |= item.starts_with('-');
                    is_float |= is_number(item) && !is_integer(item);
                }
                let number_type = match column {
                    _ if is_float => Some("Float64"),
                    Some(column) if is_signed && column.is_unsigned() => Some("Int64"),
                    _ => None,
                };
                let name = column.map_or_else(|| stream(*index), |column| column.converted(number_type));
                let item = |item: &str| {
                    if is_spaced(item) {
                        return equals_spaced(&name, item, *is_negated);
                    }
                    let value = match is_integer(item) {
                        true if is_float => format!("{item}.0"),
                        true => item.to_owned(),
                        false => decimal(item),
                    };
                    format!("{name} {equals} {value}")
                };
                format!("({})", items.map(item).collect::<Vec<_>>().join(joined))
            }
            TokenKind::SpacedText { index, text, is_negated } => {
                equals_spaced(&stream(*index), &self.text[text.clone()], *is_negated)
            }
            TokenKind::Matches { index, pattern, is_negated } => {
                let not = if *is_negated { "!" } else { "" };
                format!("{not}matches({}, regex: {})", stream(*index), &self.text[pattern.clone()])
            }
        }
    }

    /// The type that the integers of a clause are converted to. Floats, if one of its numbers is a float; signed integers,
    /// if its columns have several types of integers, or an unsigned one is beside a minus. None is converted if one is
    /// converted explicitly, or is an integer that is read by a method.
    fn number_type(&self, clause: usize, bound: &[Option<BoundName>]) -> Option<&'static str> {
        let tokens = || self.tokens.iter().filter(|token| token.clause == clause);
        let name = |token: &Token| match token.kind {
            TokenKind::Name { index, is_accessed } => Some((bound[index].as_ref()?, is_accessed)),
            _ => None,
        };
        let is_float = |token: &Token| {
            token.kind == TokenKind::Float || name(token).is_some_and(|(name, _)| name.is_float())
        };
        let is_fixed = |token: &Token| {
            token.kind == TokenKind::Cast
                || name(token).is_some_and(|(name, is_accessed)| is_accessed && name.is_integer())
        };
        if tokens().any(is_fixed) {
            return None;
        }
        if tokens().any(is_float) {
            return Some("Float64");
        }
        let integers = || tokens().filter_map(name).map(|(name, _)| name).filter(|name| name.is_integer());
        let first = integers().next()?;
        let is_mixed = integers().any(|other| other.data_type != first.data_type);
        let is_minus = |token: &Token| token.kind == TokenKind::Minus;
        let is_signed = integers().any(BoundName::is_unsigned) && tokens().any(is_minus);
        (is_mixed || is_signed).then_some("Int64")
    }

    /// Whether it needs parentheses as an operand of `∧`.
    pub(crate) fn is_loose(&self) -> bool {
        let words: Vec<&str> = self.text.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
        ["or", "if", "implies"].iter().any(|word| words.contains(word))
            || ["∨", "|", "->", "→"].iter().any(|operator| self.text.contains(operator))
    }
}

fn is_number(text: &str) -> bool {
    text.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit()) && text.parse::<f64>().is_ok()
}

fn is_integer(text: &str) -> bool {
    text.trim_start_matches('-').bytes().all(|digit| digit.is_ascii_digit())
}

/// A number without its exponent, which RTLola reads in some places only; any other text as it is.
fn decimal(text: &str) -> String {
    match text.parse::<f64>() {
        Ok(number) if is_number(text) && text.contains(['e', 'E']) => {
            let digits = number.to_string();
            if digits.contains('.') { digits } else { format!("{digits}.0") }
        }
        _ => text.to_owned(),
    }
}

/// A comparison with a text in quotes that begins with a space, as a pattern: RTLola leaves out spaces at the beginning
/// of a text.
fn equals_spaced(stream: &str, quoted: &str, is_negated: bool) -> String {
    let mut pattern = String::from("^");
    for c in quoted.trim_matches('"').chars() {
        match c {
            '\\' | '^' => pattern.extend(['\\', c]),
            c if c.is_alphanumeric() || c.is_whitespace() => pattern.push(c),
            c => pattern.extend(['[', c, ']']),
        }
    }
    let not = if is_negated { "!" } else { "" };
    format!("{not}matches({stream}, regex: \"{pattern}$\")")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_streams_and_nothing_else() {
        for (text, expected) in [
            ("true", ""),
            (r#"event == "SCREEN and event" and score > 6"#, "event score"),
            (r#"a = "q\"b" ∨ c"#, "a c"),
            ("score.hold(or: limit) > 5s", "score? limit"),
            ("cast<Int64, Float64>(score) / 2.5", "score"),
            ("a < b", "a b"),
            ("x.aggregate(over: 5s, using: sum) > y", "x? y"),
            ("n.aggregate(over_instances: all, using: max).defaults(to: z)", "n? z"),
            ("if a then b else not c", "a b c"),
            ("a.last(or: 0) + a.hold(or: 0)", "a"),
            ("größe > 1 and _x", "größe _x"),
            ("`two year recid` == 1 and not `if`", "two year recid if"),
            ("x > 1.5e3 and y.offset(by: -1) > 2", "x y"),
            ("x in [1, 2] and y not in [3] or z matches \"a\"", "x y z"),
        ] {
            let shown: Vec<String> = Scan::of(text)
                .names
                .iter()
                .map(|name| format!("{}{}", name.text, if name.is_sync { "" } else { "?" }))
                .collect();
            assert_eq!(shown.join(" "), expected, "{text}");
        }
    }

    #[test]
    fn names_are_bound_to_streams() {
        let bind = |name: &str| {
            let (stream, data_type) = match name {
                "a.b" => ("a_b", "Float64"),
                "output" => ("column_output", "String"),
                "score" => ("score", "Float64"),
                "age" => ("age", "Int64"),
                "count" => ("count", "UInt64"),
                _ => return None,
            };
            Some(BoundName { stream: stream.to_owned(), data_type: data_type.to_owned() })
        };
        for (text, expected) in [
            ("age > 30 and score > 6", "age > 30 and score > 6.0"),
            ("`a.b` + 1 > 2.5 and output == \"a.b\"", "a_b + 1.0 > 2.5 and column_output == \"a.b\""),
            (
                "score.last(or: 0) > score.offset(by: -1).defaults(to: 1)",
                "score.last(or: 0.0) > score.offset(by: -1).defaults(to: 1.0)",
            ),
            ("score.aggregate(over: 5s, using: sum) > 2", "score.aggregate(over: 5s, using: sum) > 2.0"),
            ("score > cast<Int64, Float64>(age) + 1", "score > cast<Int64, Float64>(age) + 1"),
            ("age > 2.5", "cast<Int64, Float64>(age) > 2.5"),
            ("score > age * 2", "score > cast<Int64, Float64>(age) * 2.0"),
            ("age.hold(or: 0) > 2.5", "age.hold(or: 0) > 2.5"),
            ("max(score, 1) > 2", "max(score, 1.0) > 2.0"),
            ("other > 1", "other > 1"),
            ("age in [1, 2] and true", "(age = 1 ∨ age = 2) and true"),
            ("score not in [1, -2.5]", "(score != 1.0 ∧ score != -2.5)"),
            (r#"output in ["a, ]", "b"]"#, r#"(column_output = "a, ]" ∨ column_output = "b")"#),
            ("age in []", "false"),
            ("score > 1e3 and age > 1.5E-3", "score > 1000.0 and cast<Int64, Float64>(age) > 0.0015"),
            ("age in [1, 2.5e1]", "(cast<Int64, Float64>(age) = 1.0 ∨ cast<Int64, Float64>(age) = 25.0)"),
            ("count in [-1, 2]", "(cast<UInt64, Int64>(count) = -1 ∨ cast<UInt64, Int64>(count) = 2)"),
            ("count - 5 > 0 and count > 3", "cast<UInt64, Int64>(count) - 5 > 0 and count > 3"),
            ("count > age", "cast<UInt64, Int64>(count) > age"),
            ("count > 3 -> age > 2.5", "count > 3 -> cast<Int64, Float64>(age) > 2.5"),
            ("count.last(or: 0) - 1 > 2", "count.last(or: 0) - 1 > 2"),
            (
                r#"output == " <=50K." or age == 1"#,
                r#"matches(column_output, regex: "^ [<][=]50K[.]$") or age == 1"#,
            ),
            (
                r#"output not in [" A", "b"]"#,
                r#"(!matches(column_output, regex: "^ A$") ∧ column_output != "b")"#,
            ),
            (r#"output matches "^A""#, r#"matches(column_output, regex: "^A")"#),
            (r#"output not matches "^A""#, r#"!matches(column_output, regex: "^A")"#),
        ] {
            let at = TextSpan { start: 0, end: text.len() };
            let expression = Expression::new(Located { value: text.to_owned(), at }, text);
            assert_eq!(expression.bound(bind).text, expected);
        }
    }

    #[test]
    fn a_name_is_found_in_the_file() {
        for (file, expected) in
            [("a = 'x > yy'", Some(9)), (r#"a = "x > yy""#, Some(9)), (r#"a = "x \u003e yy""#, None)]
        {
            let at = TextSpan { start: 4, end: file.len() };
            let expression = Expression::new(Located { value: "x > yy".to_owned(), at }, file);
            let place = expression.span(&expression.names[1]);
            assert_eq!(place.start, expected.unwrap_or(4), "{file}");
        }
    }
}
