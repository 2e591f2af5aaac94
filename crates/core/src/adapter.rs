//! Description of an adapter for users: name, file extensions, options.

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::nearest;

/// A kind of source or sink, as `fairstream adapters` describes it.
#[derive(Clone, Copy, Debug)]
pub struct Adapter {
    /// The name before the colon in `csv:PATH`.
    pub name: &'static str,
    /// What it reads or writes, in a line.
    pub about: &'static str,
    /// File name endings that mean this kind, without the dot.
    pub extensions: &'static [&'static str],
    /// The options it takes. All others are rejected before it is opened, unless one has the name [`ANY_OPTION`].
    pub options: &'static [OptionDoc],
}

/// Name of an option that stands for further options that only the adapter knows.
pub const ANY_OPTION: &str = "*";

/// One option of an adapter, for `fairstream adapters` and for the check of unknown keys.
#[derive(Clone, Copy, Debug)]
pub struct OptionDoc {
    /// The key.
    pub name: &'static str,
    /// The default value.
    pub default: &'static str,
    /// What it does, in a line.
    pub help: &'static str,
}

impl OptionDoc {
    /// An option with its default value and its description.
    pub const fn new(name: &'static str, default: &'static str, help: &'static str) -> OptionDoc {
        OptionDoc { name, default, help }
    }
}

/// Options by key, as written in `events.csv?delimiter=;` or in a configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options(BTreeMap<String, String>);

impl Options {
    /// Sets an option.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.0.insert(key.into(), value.into());
    }

    /// Sets an option unless it is set already.
    pub fn set_default(&mut self, key: &str, value: &str) {
        self.0.entry(key.to_owned()).or_insert_with(|| value.to_owned());
    }

    /// Removes an option.
    pub fn take(&mut self, key: &str) -> Option<String> {
        self.0.remove(key)
    }

    /// All options, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The text of an option.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// An option as a `T`, or `default` where it is not given.
    ///
    /// # Errors
    /// The text is not a `T`.
    pub fn parse<T: FromStr<Err: ToString>>(&self, key: &str, default: T) -> Result<T, BadOption> {
        let Some(value) = self.text(key) else { return Ok(default) };
        value.parse().map_err(|error: T::Err| BadOption::Value {
            key: key.to_owned(),
            value: value.to_owned(),
            reason: error.to_string(),
        })
    }

    /// Refuses keys that are not documented.
    ///
    /// # Errors
    /// The first unknown key, with the nearest known one.
    pub fn check(&self, known: &[OptionDoc]) -> Result<(), BadOption> {
        let names = || known.iter().map(|option| option.name);
        if names().any(|name| name == ANY_OPTION) {
            return Ok(());
        }
        match self.0.keys().find(|key| !names().any(|name| name == key.as_str())) {
            None => Ok(()),
            Some(key) => Err(BadOption::Key {
                key: key.clone(),
                hint: match nearest(key, names()) {
                    Some(name) => format!("did you mean `{name}`?"),
                    None if known.is_empty() => "it takes none".to_owned(),
                    None => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
                },
            }),
        }
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Options {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Options {
        Options(pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }
}

/// An option that an adapter does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadOption {
    /// No option has this name.
    #[error("there is no option `{key}`; {hint}")]
    Key {
        /// The key.
        key: String,
        /// The nearest key, or all of them.
        hint: String,
    },
    /// The value cannot be used.
    #[error("option `{key}={value}`: {reason}")]
    Value {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// Why not.
        reason: String,
    },
}
