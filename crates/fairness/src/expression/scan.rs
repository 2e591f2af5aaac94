//! Finds the parts of an expression that binding may change: names, numbers, lists, patterns, texts.

use std::ops::Range;

use super::{Name, Token, TokenKind};

const KEYWORDS: [&str; 9] = ["if", "then", "else", "true", "false", "and", "or", "not", "implies"];
/// Characters that separate clauses.
const OPERATORS: [char; 7] = ['∧', '∨', '&', '|', '¬', '→', '?'];
/// Accesses to a stream that do not need a value at that instant.
const NOT_SYNC: [&str; 4] = ["hold", "get", "is_fresh", "aggregate"];
/// Functions of RTLola's module `math`.
const MATH: [&str; 10] = ["sqrt", "min", "max", "cos", "sin", "tan", "arcsin", "arccos", "arctan", "abs"];

/// What is found in the text of an expression.
pub(super) struct Scan<'a> {
    rest: Scanner<'a>,
    pub(super) names: Vec<Name>,
    pub(super) tokens: Vec<Token>,
    clause: usize,
    pub(super) calls_math: bool,
    pub(super) matches_pattern: bool,
    /// The last character that was not a space.
    before: char,
    /// The last name that named an argument.
    argument: &'a str,
}

impl<'a> Scan<'a> {
    pub(super) fn of(text: &'a str) -> Scan<'a> {
        let mut scan = Scan {
            rest: Scanner { text, at: 0 },
            names: Vec::new(),
            tokens: Vec::new(),
            clause: 0,
            calls_math: false,
            matches_pattern: false,
            before: ' ',
            argument: "",
        };
        while let Some(c) = scan.rest.peek() {
            let start = scan.rest.at;
            match c {
                '"' => scan.text(),
                '\'' => scan.rest.string('\''),
                '`' => scan.quoted_name(),
                c if c.is_ascii_digit() => scan.number(),
                c if c.is_alphabetic() || c == '_' => scan.word(),
                '-' if scan.rest.left().starts_with("->") => {
                    scan.clause += 1;
                    scan.rest.at += 2;
                }
                '-' => {
                    scan.rest.at += 1;
                    scan.token(start, TokenKind::Minus);
                }
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
        self.rest.number();
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
pub(super) fn is_spaced(quoted: &str) -> bool {
    quoted.strip_prefix('"').is_some_and(|text| text.starts_with(char::is_whitespace))
}

pub(super) fn is_of_word(c: char) -> bool {
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

/// A position in a text.
pub(super) struct Scanner<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
}

impl<'a> Scanner<'a> {
    pub(super) fn left(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.left().chars().next()
    }

    pub(super) fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.left();
        let end = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// The text between backticks.
    pub(super) fn quoted(&mut self) -> &'a str {
        self.at += 1;
        let inside = self.take_while(|c| c != '`');
        self.at = (self.at + 1).min(self.text.len());
        inside
    }

    /// Skips a number with its decimals, exponent or unit.
    pub(super) fn number(&mut self) -> &'a str {
        let start = self.at;
        self.take_while(is_of_word);
        if self.left().starts_with('.') && !self.left()[1..].starts_with(char::is_alphabetic) {
            self.at += 1;
            self.take_while(is_of_word);
        }
        let is_exponent = self.text[start..self.at]
            .strip_suffix(['e', 'E'])
            .is_some_and(|digits| digits.parse::<f64>().is_ok());
        if is_exponent
            && let Some(digits) = self.left().strip_prefix(['+', '-'])
            && digits.starts_with(|c: char| c.is_ascii_digit())
        {
            self.at += 1;
            self.take_while(|c| c.is_ascii_digit());
        }
        &self.text[start..self.at]
    }

    fn after_spaces(&self) -> &'a str {
        self.left().trim_start()
    }

    /// Skips a text in quotes.
    pub(super) fn string(&mut self, quote: char) {
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
