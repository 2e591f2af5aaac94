//! Infers the type of a column from its first values.

use crate::EventColumn;

/// A sample of a column's values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnSample {
    /// Its name.
    pub name: String,
    /// Its type, if the source has one.
    pub data_type: Option<String>,
    /// The first values as text, in order; `None` where there is none.
    values: Vec<Option<String>>,
    /// For each type of [`GUESSES`], whether some value does not fit it.
    misfits: [bool; GUESSES.len()],
}

/// A type, and whether a value fits it.
type Guess = (&'static str, fn(&str) -> bool);

/// Types from the narrowest to the widest.
const GUESSES: [Guess; 4] = [
    ("Bool", |value| ["true", "false", "True", "False", "TRUE", "FALSE"].contains(&value)),
    ("UInt64", |value| value.parse::<u64>().is_ok() && is_plain(value)),
    ("Int64", |value| value.parse::<i64>().is_ok() && is_plain(value.trim_start_matches('-'))),
    ("Float64", |value| {
        value.parse::<f64>().is_ok_and(f64::is_finite) && is_plain(value.trim_start_matches('-'))
    }),
];

impl ColumnSample {
    /// Number of values that are kept. Later values still count for the type.
    pub const KEPT: usize = 10_000;

    /// A column without values.
    pub fn new(name: impl Into<String>, data_type: Option<String>) -> ColumnSample {
        ColumnSample { name: name.into(), data_type, ..ColumnSample::default() }
    }

    /// Adds the next value.
    pub fn add(&mut self, value: Option<&str>) {
        if let Some(value) = value {
            for ((_, fits), misfit) in GUESSES.iter().zip(&mut self.misfits) {
                *misfit |= !fits(value);
            }
        }
        if self.values.len() < Self::KEPT {
            self.values.push(value.map(str::to_owned));
        }
    }

    /// The kept values, by row.
    pub(crate) fn values(&self) -> impl Iterator<Item = Option<&str>> {
        self.values.iter().map(Option::as_deref)
    }

    /// Whether a row has a value, for the rows that are kept.
    pub(crate) fn is_present(&self) -> impl Iterator<Item = bool> {
        self.values.iter().map(Option::is_some)
    }

    /// The kept values that are not missing.
    pub fn present(&self) -> impl Iterator<Item = &str> {
        self.values.iter().flatten().map(String::as_str)
    }

    /// The narrowest type that fits every value.
    pub(crate) fn guessed_type(&self) -> &'static str {
        let fits = GUESSES.iter().zip(self.misfits).find(|(_, misfit)| !misfit);
        match fits {
            Some(((name, _), _)) if self.present().next().is_some() => name,
            _ => "String",
        }
    }

    /// The column with the type of the source, or else the inferred one.
    pub(crate) fn column(&self) -> EventColumn {
        let data_type = self.data_type.clone().unwrap_or_else(|| self.guessed_type().to_owned());
        EventColumn { name: self.name.clone(), data_type }
    }
}

/// A number that begins with a zero is a code, such as a postcode.
fn is_plain(number: &str) -> bool {
    let digits = number.split(['.', 'e', 'E']).next().unwrap_or(number);
    digits == "0" || !digits.starts_with(['0', '+'])
}

/// The columns with their types.
pub fn column_types(samples: &[ColumnSample]) -> Vec<EventColumn> {
    samples.iter().map(ColumnSample::column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_type_that_fits_every_value() {
        for (values, expected) in [
            ("1 2 3", "UInt64"),
            ("1 -2 3", "Int64"),
            ("1 2.5", "Float64"),
            ("0.5 -1", "Float64"),
            ("1 01.5", "String"),
            ("true false", "Bool"),
            ("0 1", "UInt64"),
            ("007 12", "String"),
            ("a 1", "String"),
            ("1 NaN", "String"),
            ("", "String"),
        ] {
            let mut sample = ColumnSample::new("x", None);
            values.split_whitespace().map(Some).chain([None]).for_each(|value| sample.add(value));
            assert_eq!(sample.guessed_type(), expected, "{:?}", sample.values);
        }
    }
}
