//! What the first values of a column say about its type.

use crate::Column;

/// Some values of a column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnSample {
    /// Its name.
    pub name: String,
    /// Its type, if the source has one.
    pub data_type: Option<String>,
    /// Values as text, in order; `None` where there is none.
    pub values: Vec<Option<String>>,
}

impl ColumnSample {
    /// The values that there are.
    pub(crate) fn present(&self) -> impl Iterator<Item = &str> {
        self.values.iter().flatten().map(String::as_str)
    }

    /// The type that every value has.
    pub(crate) fn guessed_type(&self) -> &'static str {
        let all = |fits: fn(&str) -> bool| self.present().all(fits);
        if self.present().next().is_none() {
            "String"
        } else if all(|value| ["true", "false"].contains(&value)) {
            "Bool"
        } else if all(|value| value.parse::<u64>().is_ok() && is_plain(value)) {
            "UInt64"
        } else if all(|value| value.parse::<i64>().is_ok() && is_plain(value.trim_start_matches('-'))) {
            "Int64"
        } else if all(|value| value.parse::<f64>().is_ok_and(f64::is_finite)) {
            "Float64"
        } else {
            "String"
        }
    }

    /// The type of the source, or else that of the values.
    pub(crate) fn column(&self) -> Column {
        let data_type = self.data_type.clone().unwrap_or_else(|| self.guessed_type().to_owned());
        Column { name: self.name.clone(), data_type }
    }
}

/// A number that begins with a zero is a code, such as a postcode.
fn is_plain(digits: &str) -> bool {
    digits == "0" || !digits.starts_with(['0', '+'])
}

/// The columns with their types.
pub fn column_types(samples: &[ColumnSample]) -> Vec<Column> {
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
            ("true false", "Bool"),
            ("0 1", "UInt64"),
            ("007 12", "String"),
            ("a 1", "String"),
            ("1 NaN", "String"),
            ("", "String"),
        ] {
            let values =
                values.split_whitespace().map(|value| Some(value.to_owned())).chain([None]).collect();
            let sample = ColumnSample { name: "x".to_owned(), data_type: None, values };
            assert_eq!(sample.guessed_type(), expected, "{:?}", sample.values);
        }
    }
}
