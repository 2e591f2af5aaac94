//! Reads TOML tables strictly: a key of the wrong type, a missing key and an unknown key are problems with a position.
//! Knows nothing of fairness.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;
use std::time::Duration;

use fairstream_core::{nearest, parse_duration, visible};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::Problem;

/// A value and its position in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Located<T> {
    pub(crate) value: T,
    pub(crate) at: TextSpan,
}

/// The values without their positions.
pub(crate) fn values(texts: &[Located<String>]) -> Vec<String> {
    texts.iter().map(|text| text.value.clone()).collect()
}

/// A range of bytes of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TextSpan {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl TextSpan {
    pub(crate) fn range(&self) -> Range<usize> {
        self.start..self.end
    }
}

impl From<Range<usize>> for TextSpan {
    fn from(range: Range<usize>) -> TextSpan {
        TextSpan { start: range.start, end: range.end }
    }
}

/// Collects problems.
pub(crate) type Problems = RefCell<Vec<Problem>>;

/// A table that is being read.
pub(crate) struct TomlTable<'a> {
    /// Its name in errors, such as `[trial]`.
    pub(crate) name: String,
    pub(crate) at: TextSpan,
    entries: &'a DeTable<'a>,
    asked: RefCell<Vec<&'static str>>,
    problems: &'a Problems,
}

impl<'a> TomlTable<'a> {
    pub(crate) fn new(
        name: &str,
        at: TextSpan,
        entries: &'a DeTable<'a>,
        problems: &'a Problems,
    ) -> TomlTable<'a> {
        TomlTable { name: name.to_owned(), at, entries, asked: RefCell::default(), problems }
    }

    pub(crate) fn problem(&self, problem: Problem) {
        self.problems.borrow_mut().push(problem);
    }

    fn value(&self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.asked.borrow_mut().push(key);
        self.entries.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|(name, _)| name.get_ref() == key)
    }

    /// Reports a missing key.
    pub(crate) fn missing(&self, key: &str, why: &str) {
        let message = format!("{} has no `{key}`", self.name);
        self.problem(Problem::new(self.at.range(), message).help(why));
    }

    fn wrong(&self, key: &str, value: &Spanned<DeValue<'_>>, wanted: &str) {
        let message = format!("`{key}` is {}, and has to be {wanted}", kind(value.get_ref()));
        self.problem(Problem::new(value.span(), message));
    }

    pub(crate) fn text(&self, key: &'static str) -> Option<Located<String>> {
        let value = self.value(key)?;
        let text = located_text(value);
        if text.is_none() {
            self.wrong(key, value, "a string");
        }
        text
    }

    /// Words that sentences contain: one line, without what would act on a terminal.
    pub(crate) fn words(&self, key: &'static str) -> Option<Located<String>> {
        let text = self.text(key)?;
        if matches!(visible(&text.value), Cow::Owned(_)) {
            let message = format!("`{key}` has characters that control how text is shown");
            self.problem(Problem::new(text.at.range(), message).help("leave them out"));
            return None;
        }
        Some(text)
    }

    /// A value of a column, as text: a string, a number, `true` or `false`.
    pub(crate) fn value_text(&self, key: &'static str) -> Option<Located<String>> {
        let value = self.value(key)?;
        let text = match value.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Integer(digits) => {
                i128::from_str_radix(digits.as_str(), digits.radix()).ok().map(|number| number.to_string())
            }
            DeValue::Float(digits) => Some(digits.as_str().to_owned()),
            DeValue::Boolean(value) => Some(value.to_string()),
            _ => None,
        };
        if text.is_none() {
            self.wrong(key, value, "a value of the column: a string, a number, true or false");
        }
        text.map(|text| Located { value: text, at: value.span().into() })
    }

    /// One string, or several.
    pub(crate) fn texts(&self, key: &'static str) -> Option<Vec<Located<String>>> {
        let value = self.value(key)?;
        let texts = match value.get_ref() {
            DeValue::Array(values) => values.iter().map(located_text).collect(),
            _ => located_text(value).map(|text| vec![text]),
        };
        if texts.is_none() {
            self.wrong(key, value, "a string or a list of strings");
        }
        texts
    }

    pub(crate) fn number(&self, key: &'static str) -> Option<Located<f64>> {
        let value = self.value(key)?;
        let number = number(value.get_ref());
        if number.is_none() {
            self.wrong(key, value, "a finite number");
        }
        number.map(|number| Located { value: number, at: value.span().into() })
    }

    pub(crate) fn count(&self, key: &'static str) -> Option<u64> {
        let value = self.value(key)?;
        let count = match value.get_ref() {
            DeValue::Integer(digits) => u64::from_str_radix(digits.as_str(), digits.radix()).ok(),
            _ => None,
        };
        if count.is_none() {
            self.wrong(key, value, "a whole number from 0 on");
        }
        count
    }

    pub(crate) fn duration(&self, key: &'static str) -> Option<Located<Duration>> {
        let duration = self.duration_from_zero(key)?;
        if duration.value.is_zero() {
            let message = format!("`{key}` has to be longer than nothing");
            self.problem(Problem::new(duration.at.range(), message));
            return None;
        }
        Some(duration)
    }

    /// A duration that may be zero.
    pub(crate) fn duration_from_zero(&self, key: &'static str) -> Option<Located<Duration>> {
        let text = self.text(key)?;
        match parse_duration(&text.value) {
            Ok(duration) => Some(Located { value: duration, at: text.at }),
            Err(error) => {
                self.problem(Problem::new(text.at.range(), error.to_string()));
                None
            }
        }
    }

    /// Two numbers, the lower one first.
    pub(crate) fn range(&self, key: &'static str) -> Option<(f64, f64)> {
        let value = self.value(key)?;
        let ends: Option<Vec<f64>> = match value.get_ref() {
            DeValue::Array(values) => values.iter().map(|value| number(value.get_ref())).collect(),
            _ => None,
        };
        match ends.as_deref() {
            Some(&[low, high]) if low < high => Some((low, high)),
            _ => {
                self.wrong(key, value, "two finite numbers, the lower one first, such as [0, 10]");
                None
            }
        }
    }

    /// A list of numbers.
    pub(crate) fn numbers(&self, key: &'static str) -> Option<Located<Vec<f64>>> {
        let value = self.value(key)?;
        let numbers: Option<Vec<f64>> = match value.get_ref() {
            DeValue::Array(values) => values.iter().map(|value| number(value.get_ref())).collect(),
            _ => None,
        };
        if numbers.is_none() {
            self.wrong(key, value, "a list of finite numbers");
        }
        numbers.map(|numbers| Located { value: numbers, at: value.span().into() })
    }

    /// `true` or `false`.
    pub(crate) fn flag(&self, key: &'static str) -> Option<Located<bool>> {
        let value = self.value(key)?;
        let flag = match value.get_ref() {
            DeValue::Boolean(flag) => Some(*flag),
            _ => None,
        };
        if flag.is_none() {
            self.wrong(key, value, "true or false");
        }
        flag.map(|flag| Located { value: flag, at: value.span().into() })
    }

    /// A value of any kind.
    pub(crate) fn entry(&self, key: &'static str) -> Option<TomlEntry<'a>> {
        let value = self.value(key)?;
        let at = value.span().into();
        Some(TomlEntry { key: Located { value: key.to_owned(), at }, value, problems: self.problems })
    }

    /// A number, or any string.
    pub(crate) fn number_or_text(&self, key: &'static str) -> Option<Result<Located<f64>, Located<String>>> {
        let value = self.entries.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value);
        match value.map(Spanned::get_ref) {
            Some(DeValue::String(_)) => self.text(key).map(Err),
            _ => self.number(key).map(Ok),
        }
    }

    pub(crate) fn is_text(&self, key: &str) -> bool {
        let value = self.entries.iter().find(|(name, _)| name.get_ref() == key);
        value.is_some_and(|(_, value)| matches!(value.get_ref(), DeValue::String(_)))
    }

    pub(crate) fn table(&self, key: &'static str) -> Option<TomlTable<'a>> {
        let value = self.value(key)?;
        let DeValue::Table(entries) = value.get_ref() else {
            self.wrong(key, value, "a table");
            return None;
        };
        let name = if self.name.is_empty() { format!("[{key}]") } else { format!("`{key}`") };
        Some(TomlTable::new(&name, value.span().into(), entries, self.problems))
    }

    /// The tables of `[[key]]`.
    pub(crate) fn tables(&self, key: &'static str) -> Vec<TomlTable<'a>> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let DeValue::Array(values) = value.get_ref() else {
            self.wrong(key, value, &format!("a list of tables: write [[{key}]]"));
            return Vec::new();
        };
        let mut tables = Vec::new();
        for value in values.iter() {
            match value.get_ref() {
                DeValue::Table(entries) => {
                    tables.push(TomlTable::new(
                        &format!("[[{key}]]"),
                        value.span().into(),
                        entries,
                        self.problems,
                    ));
                }
                _ => self.wrong(key, value, "a table"),
            }
        }
        tables
    }

    /// Every entry in order of the file. A table that is read like this has no unknown keys.
    pub(crate) fn entries(&self) -> Vec<TomlEntry<'a>> {
        let mut entries: Vec<TomlEntry<'a>> = self
            .entries
            .iter()
            .map(|(key, value)| TomlEntry {
                key: Located { value: key.get_ref().to_string(), at: key.span().into() },
                value,
                problems: self.problems,
            })
            .collect();
        entries.sort_by_key(|entry| entry.key.at.start);
        entries
    }

    /// Reports unknown keys.
    pub(crate) fn finish(self) {
        let asked = self.asked.borrow();
        for (key, _) in self.entries.iter().filter(|(key, _)| !asked.contains(&key.get_ref().as_ref())) {
            let place = if self.name.is_empty() { "a fairness file".to_owned() } else { self.name.clone() };
            let help = match nearest(key.get_ref(), asked.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", list(asked.iter().copied())),
            };
            self.problems
                .borrow_mut()
                .push(Problem::new(key.span(), format!("{place} has no key `{}`", key.get_ref())).help(help));
        }
    }
}

/// An entry of a table with user-defined keys.
pub(crate) struct TomlEntry<'a> {
    pub(crate) key: Located<String>,
    value: &'a Spanned<DeValue<'a>>,
    problems: &'a Problems,
}

impl<'a> TomlEntry<'a> {
    pub(crate) fn text(&self) -> Option<Located<String>> {
        located_text(self.value)
    }

    /// Where the value is written.
    pub(crate) fn at(&self) -> Range<usize> {
        self.value.span()
    }

    /// A string, a number or a Boolean, as text.
    pub(crate) fn plain(&self) -> Option<String> {
        match self.value.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Integer(digits) => Some(digits.to_string()),
            DeValue::Float(digits) => Some(digits.to_string()),
            DeValue::Boolean(value) => Some(value.to_string()),
            _ => None,
        }
    }

    pub(crate) fn table(&self) -> Option<TomlTable<'a>> {
        match self.value.get_ref() {
            DeValue::Table(entries) => {
                let name = format!("`{}`", self.key.value);
                Some(TomlTable::new(&name, self.value.span().into(), entries, self.problems))
            }
            _ => None,
        }
    }

    /// The items of a list, under the key of the list.
    pub(crate) fn items(&self) -> Option<Vec<TomlEntry<'a>>> {
        let DeValue::Array(values) = self.value.get_ref() else { return None };
        let item = |value| TomlEntry { key: self.key.clone(), value, problems: self.problems };
        Some(values.iter().map(item).collect())
    }

    pub(crate) fn wrong(&self, wanted: &str) {
        let message =
            format!("`{}` is {}, and has to be {wanted}", self.key.value, kind(self.value.get_ref()));
        self.problems.borrow_mut().push(Problem::new(self.value.span(), message));
    }
}

/// `a`, `b`, `c`.
pub(crate) fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// A key of TOML, in quotes if it needs them.
pub(crate) fn toml_key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(is_bare) { name.to_owned() } else { toml_text(name) }
}

/// A string of TOML.
pub(crate) fn toml_text(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out += &format!("\\u{:04X}", u32::from(c)),
            c => out.push(c),
        }
    }
    out + "\""
}

fn located_text(value: &Spanned<DeValue<'_>>) -> Option<Located<String>> {
    match value.get_ref() {
        DeValue::String(text) => Some(Located { value: text.to_string(), at: value.span().into() }),
        _ => None,
    }
}

fn number(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Integer(digits) if digits.radix() == 10 => digits.as_str().parse().ok(),
        DeValue::Float(digits) => digits.as_str().parse().ok().filter(|number: &f64| number.is_finite()),
        _ => None,
    }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
