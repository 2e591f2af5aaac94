//! Expressions in a fairness file: RTLola, with the names of columns as they are in the data, lists (`in [..]`) and
//! patterns (`matches`) as operators, and integers that are compared with floats. Types are left to the RTLola frontend.

use std::ops::Range;

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
    /// Text in single quotes, which is not RTLola.
    single_quoted: Option<Range<usize>>,
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
}

const KEYWORDS: [&str; 9] = ["if", "then", "else", "true", "false", "and", "or", "not", "implies"];
/// Characters that separate clauses.
const OPERATORS: [char; 7] = ['∧', '∨', '&', '|', '¬', '→', '?'];
/// Accesses to a stream that do not need a value at that instant.
const NOT_SYNC: [&str; 4] = ["hold", "get", "is_fresh", "aggregate"];
/// Functions of RTLola's module `math`.
const MATH: [&str; 10] = ["sqrt", "min", "max", "cos", "sin", "tan", "arcsin", "arccos", "arctan", "abs"];

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
        let Scan { names, tokens, calls_math, matches_pattern, single_quoted, .. } = Scan::of(&text);
        Expression {
            text,
            at,
            begins,
            names,
            calls_math,
            matches_pattern,
            tokens,
            single_quoted,
            origins: Vec::new(),
        }
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

    /// Text in single quotes, and its position in the file.
    pub(crate) fn single_quoted(&self) -> Option<(&str, TextSpan)> {
        let range = self.single_quoted.as_ref()?;
        Some((self.text[range.clone()].trim_matches('\''), self.part(range)))
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
                Some(name) if name.is_integer() && self.has_floats(token.clause, bound) => {
                    format!("cast<{}, Float64>({})", name.data_type, name.stream)
                }
                _ => stream(*index),
            },
            TokenKind::Integer if self.has_floats(token.clause, bound) => format!("{}.0", written()),
            TokenKind::Integer | TokenKind::Float | TokenKind::Cast => written(),
            TokenKind::OneOf { items, .. } if items.is_empty() => "false".to_owned(),
            TokenKind::OneOf { index, items, is_negated } => {
                let (equals, joined) = if *is_negated { ("!=", " ∧ ") } else { ("=", " ∨ ") };
                let is_float = bound[*index].as_ref().is_some_and(BoundName::is_float);
                let item = |range: &Range<usize>| {
                    let item = &self.text[range.clone()];
                    if is_spaced(item) {
                        return equals_spaced(&stream(*index), item, *is_negated);
                    }
                    let is_integer = item.trim_start_matches('-').bytes().all(|digit| digit.is_ascii_digit());
                    let decimals = if is_float && is_integer { ".0" } else { "" };
                    format!("{} {equals} {item}{decimals}", stream(*index))
                };
                format!("({})", items.iter().map(item).collect::<Vec<_>>().join(joined))
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

    /// Whether the numbers of a clause are converted to floats: one of them is a float, and none is converted explicitly
    /// or an integer that is read by a method.
    fn has_floats(&self, clause: usize, bound: &[Option<BoundName>]) -> bool {
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
        tokens().any(is_float) && !tokens().any(is_fixed)
    }

    /// Whether it needs parentheses as an operand of `∧`.
    pub(crate) fn is_loose(&self) -> bool {
        let words: Vec<&str> = self.text.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
        ["or", "if", "implies"].iter().any(|word| words.contains(word))
            || ["∨", "|", "->", "→"].iter().any(|operator| self.text.contains(operator))
    }
}

/// What is found in the text of an expression.
struct Scan<'a> {
    rest: Scanner<'a>,
    names: Vec<Name>,
    tokens: Vec<Token>,
    clause: usize,
    calls_math: bool,
    matches_pattern: bool,
    single_quoted: Option<Range<usize>>,
    /// The last character that was not a space.
    before: char,
    /// The last name that named an argument.
    argument: &'a str,
}

impl<'a> Scan<'a> {
    fn of(text: &'a str) -> Scan<'a> {
        let mut scan = Scan {
            rest: Scanner { text, at: 0 },
            names: Vec::new(),
            tokens: Vec::new(),
            clause: 0,
            calls_math: false,
            matches_pattern: false,
            single_quoted: None,
            before: ' ',
            argument: "",
        };
        while let Some(c) = scan.rest.peek() {
            let start = scan.rest.at;
            match c {
                '"' => scan.text(),
                '\'' => {
                    scan.rest.string('\'');
                    scan.single_quoted.get_or_insert(start..scan.rest.at);
                }
                '`' => scan.quoted_name(),
                c if c.is_ascii_digit() => scan.number(),
                c if c.is_alphabetic() || c == '_' => scan.word(),
                c => {
                    scan.clause += usize::from(OPERATORS.contains(&c));
                    scan.rest.at += c.len_utf8();
                }
            }
            if let Some(last) = text[start..scan.rest.at].chars().last().filter(|c| !c.is_whitespace()) {
                scan.before = last;
            }
        }
        scan
    }

    fn token(&mut self, start: usize, kind: TokenKind) {
        self.tokens.push(Token { range: start..self.rest.at, kind, clause: self.clause });
    }

    fn text(&mut self) {
        let start = self.rest.at;
        self.rest.string('"');
        let text = start..self.rest.at;
        let Some(Token { range, kind: TokenKind::Name { index, is_accessed: false }, .. }) =
            self.tokens.last()
        else {
            return;
        };
        let is_negated = match self.rest.text[range.end..start].trim() {
            "=" | "==" => false,
            "!=" => true,
            _ => return,
        };
        if is_spaced(&self.rest.text[text.clone()]) {
            let (start, kind) = (range.start, TokenKind::SpacedText { index: *index, text, is_negated });
            self.tokens.pop();
            self.token(start, kind);
        }
    }

    fn number(&mut self) {
        let start = self.rest.at;
        self.rest.take_while(is_of_word);
        if self.rest.left().starts_with('.') && !self.rest.left()[1..].starts_with(char::is_alphabetic) {
            self.rest.at += 1;
            self.rest.take_while(is_of_word);
        }
        let is_argument =
            ["by", "over", "index"].contains(&self.argument) && [':', '-'].contains(&self.before);
        let text = &self.rest.text[start..self.rest.at];
        if is_argument {
        } else if text.bytes().all(|digit| digit.is_ascii_digit()) {
            self.token(start, TokenKind::Integer);
        } else if text.parse::<f64>().is_ok() {
            self.token(start, TokenKind::Float);
        }
    }

    fn quoted_name(&mut self) {
        let start = self.rest.at;
        let name = self.rest.quoted();
        self.name(name, start);
    }

    fn word(&mut self) {
        let start = self.rest.at;
        let word = self.rest.take_while(|c| is_of_word(c) || c == '\'');
        let after = self.rest.after_spaces();
        if after.starts_with(':') && !after.starts_with("::") {
            self.argument = word;
            self.rest.at = self.rest.text.len() - after.len() + 1;
            return;
        }
        if word == "not"
            && ["in", "matches"].iter().any(|next| first_word(after) == *next)
            && self.is_after_name()
        {
            self.rest.at = self.rest.text.len() - after.len();
            let operator = self.rest.take_while(is_of_word);
            self.operator(operator, true);
            return;
        }
        if ["in", "matches"].contains(&word) && self.is_after_name() {
            self.operator(word, false);
            return;
        }
        let generic = generic(after);
        if after.starts_with('(') || generic.is_some() {
            self.calls_math |= MATH.contains(&word) && self.before != '.';
            self.matches_pattern |= word == "matches";
            if word == "cast" {
                self.token(start, TokenKind::Cast);
            }
            if let Some(length) = generic {
                self.rest.at = self.rest.text.len() - after.len() + length;
            }
            return;
        }
        let is_option = ["using", "over_instances"].contains(&self.argument) && self.before == ':';
        if KEYWORDS.contains(&word) {
            self.clause += 1;
        } else if self.before != '.' && !is_option {
            self.name(word, start);
        }
    }

    fn name(&mut self, word: &str, start: usize) {
        let range = start..self.rest.at;
        let method = self.rest.after_spaces().strip_prefix('.');
        let is_sync =
            !NOT_SYNC.iter().any(|known| method.is_some_and(|method| method.trim_start().starts_with(known)));
        let index = match self.names.iter().position(|name| name.text == word) {
            Some(known) => {
                self.names[known].is_sync |= is_sync;
                known
            }
            None => {
                self.names.push(Name { text: word.to_owned(), range, is_sync });
                self.names.len() - 1
            }
        };
        self.token(start, TokenKind::Name { index, is_accessed: method.is_some() });
    }

    /// Whether the last token is a name, and nothing but spaces is between it and the word that ends here.
    fn is_after_name(&self) -> bool {
        let is_name = |token: &&Token| matches!(token.kind, TokenKind::Name { is_accessed: false, .. });
        self.tokens.last().filter(is_name).is_some_and(|token| {
            let between = &self.rest.text[token.range.end..self.rest.at];
            ["in", "matches", "not"].contains(&between.trim())
        })
    }

    /// `in [..]` or `matches ".."`, whose first word has been read, after the name that is the last token.
    fn operator(&mut self, operator: &str, is_negated: bool) {
        let Some(Token { range, kind: TokenKind::Name { index, .. }, .. }) = self.tokens.last().cloned()
        else {
            return;
        };
        let after = self.rest.after_spaces();
        self.rest.at = self.rest.text.len() - after.len();
        let kind = if operator == "in" && after.starts_with('[') {
            let items = self.rest.items();
            Some(TokenKind::OneOf { index, items, is_negated })
        } else if operator == "matches" && after.starts_with('"') {
            let start = self.rest.at;
            self.rest.string('"');
            self.matches_pattern = true;
            Some(TokenKind::Matches { index, pattern: start..self.rest.at, is_negated })
        } else {
            None
        };
        if let Some(kind) = kind {
            self.tokens.pop();
            self.token(range.start, kind);
        }
    }
}

/// Whether a text in quotes begins with a space.
fn is_spaced(quoted: &str) -> bool {
    quoted.strip_prefix('"').is_some_and(|text| text.starts_with(char::is_whitespace))
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

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn first_word(text: &str) -> &str {
    &text[..text.find(|c| !is_of_word(c)).unwrap_or(text.len())]
}

/// Length of the type arguments `<…>` that follow, as in `cast<Int64, Float64>(score)`, if there are any.
fn generic(after: &str) -> Option<usize> {
    let (inside, rest) = after.strip_prefix('<')?.split_once('>')?;
    let is_generic = rest.trim_start().starts_with('(')
        && inside.chars().all(|c| c.is_alphanumeric() || c.is_whitespace() || c == ',' || c == '_')
        && inside.contains(|c: char| c.is_ascii_uppercase());
    is_generic.then_some(inside.len() + 2)
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn left(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.left().chars().next()
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.left();
        let end = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// The text between backticks.
    fn quoted(&mut self) -> &'a str {
        self.at += 1;
        let inside = self.take_while(|c| c != '`');
        self.at = (self.at + 1).min(self.text.len());
        inside
    }

    fn after_spaces(&self) -> &'a str {
        self.left().trim_start()
    }

    /// Skips a text in quotes.
    fn string(&mut self, quote: char) {
        let mut escaped = false;
        self.at += 1;
        while let Some(c) = self.peek() {
            self.at += c.len_utf8();
            match c {
                c if c == quote && !escaped => return,
                '\\' => escaped = !escaped,
                _ => escaped = false,
            }
        }
    }

    /// The ranges of the items of a list in square brackets.
    fn items(&mut self) -> Vec<Range<usize>> {
        self.at += 1;
        let (mut items, mut start) = (Vec::new(), self.at);
        while let Some(c) = self.peek() {
            if c == '"' {
                self.string('"');
                continue;
            }
            if [',', ']'].contains(&c) {
                let item = &self.text[start..self.at];
                let begin = start + item.len() - item.trim_start().len();
                if !item.trim().is_empty() {
                    items.push(begin..begin + item.trim().len());
                }
                start = self.at + 1;
            }
            self.at += c.len_utf8();
            if c == ']' {
                break;
            }
        }
        items
    }
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
