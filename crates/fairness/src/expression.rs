//! RTLola expressions in a fairness file. Only names are analysed here: which columns an expression reads, and which of
//! them must have a value at that instant. Everything else is left to the RTLola frontend.

use crate::table::{Located, TextSpan};

/// An expression and its position in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expression {
    pub(crate) text: String,
    /// The value in the file, quotes included.
    pub(crate) at: TextSpan,
    /// Position of its first character in the file, if the file has it without escapes.
    pub(crate) begins: Option<usize>,
    pub(crate) names: Vec<Name>,
}

/// A name that an expression reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) text: String,
    /// Position in the expression.
    offset: usize,
    /// Whether it must have a value at that instant; false with `hold`, for example.
    pub(crate) is_sync: bool,
}

const KEYWORDS: [&str; 9] = ["if", "then", "else", "true", "false", "and", "or", "not", "implies"];
/// Accesses to a stream that do not need a value at that instant.
const NOT_SYNC: [&str; 4] = ["hold", "get", "is_fresh", "aggregate"];

impl Expression {
    /// `file` is the text that it was read from.
    pub(crate) fn new(text: Located<String>, file: &str) -> Expression {
        let raw = file.get(text.at.range()).unwrap_or_default();
        let quote =
            ["'''", "\"\"\"", "'", "\""].into_iter().find(|quote| raw.starts_with(quote)).unwrap_or("");
        let is_literal = raw.get(quote.len()..quote.len() + text.value.len()) == Some(&text.value);
        Expression {
            begins: is_literal.then_some(text.at.start + quote.len()),
            names: names(&text.value),
            text: text.value,
            at: text.at,
        }
    }

    /// The position of a name in the file.
    pub(crate) fn span(&self, name: &Name) -> TextSpan {
        match self.begins {
            Some(begins) => (begins + name.offset..begins + name.offset + name.text.len()).into(),
            None => self.at.clone(),
        }
    }

    /// Whether it is nothing but `true`.
    pub(crate) fn is_true(&self) -> bool {
        self.text.trim() == "true"
    }

    /// Its only token, if that is a name.
    pub(crate) fn as_name(&self) -> Option<&str> {
        match self.names.as_slice() {
            [name] if name.text == self.text.trim() => Some(&name.text),
            _ => None,
        }
    }

    /// Whether it needs parentheses as an operand of `∧`.
    pub(crate) fn is_loose(&self) -> bool {
        let words: Vec<&str> = self.text.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
        ["or", "if", "implies"].iter().any(|word| words.contains(word))
            || ["∨", "|", "->", "→"].iter().any(|operator| self.text.contains(operator))
    }
}

/// Names that stand for streams, in order, each once.
fn names(text: &str) -> Vec<Name> {
    let mut names: Vec<Name> = Vec::new();
    let mut rest = Scanner { text, at: 0 };
    // The last character that was not a space, and the last name that named an argument.
    let (mut before, mut argument) = (' ', String::new());
    while let Some(c) = rest.peek() {
        let start = rest.at;
        if c == '"' {
            rest.string();
        } else if c.is_ascii_digit() {
            rest.take_while(|c| c.is_alphanumeric() || c == '_');
        } else if c.is_alphabetic() || c == '_' {
            let word = rest.take_while(|c| c.is_alphanumeric() || c == '_' || c == '\'');
            let after = rest.after_spaces();
            let is_argument = after.starts_with(':') && !after.starts_with("::");
            if is_argument {
                argument = word.to_owned();
                before = ':';
                rest.at += rest.text[rest.at..].len() - after.len() + 1;
                continue;
            }
            let is_option = ["using", "over_instances"].contains(&argument.as_str()) && before == ':';
            let generic = generic(after);
            let is_call = after.starts_with('(') || generic.is_some();
            if let Some(length) = generic {
                rest.at = text.len() - after.len() + length;
            }
            if before != '.' && !is_option && !is_call && !KEYWORDS.contains(&word) {
                let is_sync = !NOT_SYNC.iter().any(|method| {
                    after.strip_prefix('.').is_some_and(|rest| rest.trim_start().starts_with(method))
                });
                match names.iter_mut().find(|name| name.text == word) {
                    Some(known) => known.is_sync |= is_sync,
                    None => names.push(Name { text: word.to_owned(), offset: start, is_sync }),
                }
            }
        } else {
            rest.at += c.len_utf8();
        }
        if let Some(last) = text[start..rest.at].chars().last().filter(|c| !c.is_whitespace()) {
            before = last;
        }
    }
    names
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
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = &self.text[self.at..];
        let end = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn after_spaces(&self) -> &'a str {
        self.text[self.at..].trim_start()
    }

    fn string(&mut self) {
        let mut escaped = false;
        self.at += 1;
        while let Some(c) = self.peek() {
            self.at += c.len_utf8();
            match c {
                '"' if !escaped => return,
                '\\' => escaped = !escaped,
                _ => escaped = false,
            }
        }
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
        ] {
            let shown: Vec<String> = names(text)
                .iter()
                .map(|name| format!("{}{}", name.text, if name.is_sync { "" } else { "?" }))
                .collect();
            assert_eq!(shown.join(" "), expected, "{text}");
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
