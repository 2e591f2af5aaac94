//! What the values of a column say about its role.

use std::collections::BTreeSet;

use super::names::is_yes;
use crate::ColumnSample;

/// Maximum number of different values of a column with groups.
pub(super) const MOST_GROUPS: usize = 20;

/// Maximum number of different values that are told apart.
const MOST_VALUES: usize = 1000;

/// A column, and what its values have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TableColumn {
    pub(super) name: String,
    /// The type: the source's, or else the inferred one.
    pub(super) data_type: String,
    /// The different values, at most 1,001 of them.
    pub(super) values: BTreeSet<String>,
    pub(super) sample: ColumnSample,
}

impl TableColumn {
    pub(super) fn new(sample: ColumnSample) -> TableColumn {
        let mut values = BTreeSet::new();
        for value in sample.present() {
            if values.len() > MOST_VALUES {
                break;
            }
            if !values.contains(value) {
                values.insert(value.to_owned());
            }
        }
        TableColumn { name: sample.name.clone(), data_type: sample.column().data_type, values, sample }
    }

    pub(super) fn is_text(&self) -> bool {
        self.data_type == "String"
    }

    pub(super) fn is_number(&self) -> bool {
        !["Bool", "String"].contains(&self.data_type.as_str())
    }

    /// Whether it has two values: yes and no, 0 and 1, or any other two.
    pub(super) fn is_two_valued(&self) -> bool {
        self.data_type == "Bool" || self.values.len() == 2
    }

    pub(super) fn is_of_few_texts(&self) -> bool {
        self.is_text() && (2..=MOST_GROUPS).contains(&self.values.len())
    }

    /// Whether it has many numbers, of which the high ones count.
    pub(super) fn is_compared_by_size(&self) -> bool {
        self.is_number() && self.values.len() > 2
    }

    /// Whether the kept values are all different.
    pub(super) fn is_unique(&self) -> bool {
        let mut seen = BTreeSet::new();
        self.sample.present().all(|value| seen.insert(value))
    }

    pub(super) fn is_complete(&self) -> bool {
        self.sample.is_present().all(|is_present| is_present)
    }

    /// How even its two values are, from 0 to 0.5; 0 for other columns.
    pub(super) fn balance(&self) -> f64 {
        let Some(first) = self.sample.present().next().filter(|_| self.is_two_valued()) else { return 0.0 };
        let (same, all) = self
            .sample
            .present()
            .fold((0.0, 0.0), |(same, all), value| (same + f64::from(u8::from(value == first)), all + 1.0));
        let share: f64 = same / all;
        share.min(1.0 - share)
    }

    /// Whether its numbers can be ages in years.
    pub(super) fn is_in_years(&self) -> bool {
        let numbers = || self.values.iter().filter_map(|value| value.parse::<f64>().ok());
        let oldest = numbers().fold(0.0, f64::max);
        self.is_number() && (30.0..=130.0).contains(&oldest) && numbers().all(|age| age >= 0.0)
    }

    pub(super) fn median(&self) -> Option<f64> {
        let mut numbers: Vec<f64> = self.sample.present().filter_map(|value| value.parse().ok()).collect();
        numbers.sort_by(f64::total_cmp);
        numbers.get(numbers.len() / 2).copied()
    }

    /// The value that says yes: known by its name, or else a guess, which is the larger of two.
    pub(super) fn yes_value(&self) -> Option<&str> {
        let number = |value: &&String| value.parse::<f64>().unwrap_or(f64::NEG_INFINITY);
        let largest = || {
            self.values.iter().max_by(|one, other| number(one).total_cmp(&number(other)).then(one.cmp(other)))
        };
        self.values.iter().find(|value| is_yes(value)).or_else(largest).map(String::as_str)
    }

    /// Whether it has the keys of other rows, in rows without a key of their own.
    pub(super) fn refers_to(&self, key: &TableColumn) -> bool {
        if self.data_type != key.data_type {
            return false;
        }
        let apart = key.sample.is_present().zip(self.sample.is_present()).all(|(key, value)| !(key && value));
        if !apart {
            return false;
        }
        let keys: BTreeSet<&str> = key.sample.present().collect();
        let known = self.sample.present().filter(|value| keys.contains(value)).count();
        let present = self.sample.present().count();
        present > 0 && known * 10 >= present * 9
    }
}

/// The beginnings of names that more than two columns with two numbers share: a category that was spread over columns,
/// such as `race` of `race_White`.
pub(super) fn spread_categories(columns: &[TableColumn]) -> BTreeSet<String> {
    let is_part = |column: &&TableColumn| column.is_number() && column.values.len() <= 2;
    let mut bases: Vec<&str> =
        columns.iter().filter(is_part).filter_map(|column| base(&column.name)).collect();
    bases.sort_unstable();
    bases
        .chunk_by(|one, other| one == other)
        .filter(|alike| alike.len() > 2)
        .map(|alike| alike[0].to_owned())
        .collect()
}

/// The name before its last underscore.
pub(super) fn base(name: &str) -> Option<&str> {
    name.rfind('_').map(|end| &name[..end])
}
