//! What the values of a column say about its role.

use std::collections::BTreeSet;

use super::names::is_yes;
use crate::ColumnSample;

/// Maximum number of different values of a column with groups.
pub(super) const MOST_GROUPS: usize = 20;

/// The different values, at most 1,001 of them.
pub(super) fn distinct(sample: &ColumnSample) -> BTreeSet<&str> {
    let mut values = BTreeSet::new();
    for value in sample.present() {
        values.insert(value);
        if values.len() > 1000 {
            break;
        }
    }
    values
}

/// The type of a column: the source's, or else the inferred one.
pub(super) fn type_of(sample: &ColumnSample) -> String {
    sample.column().data_type
}

pub(super) fn is_number(sample: &ColumnSample) -> bool {
    !["Bool", "String"].contains(&type_of(sample).as_str())
}

/// Whether it has two values: yes and no, 0 and 1, or any other two.
pub(super) fn is_two_valued(sample: &ColumnSample) -> bool {
    type_of(sample) == "Bool" || distinct(sample).len() == 2
}

/// How many of the kept values are different, from 0 to 1.
pub(super) fn is_unique(sample: &ColumnSample) -> bool {
    let present: Vec<&str> = sample.present().collect();
    let different: BTreeSet<&str> = present.iter().copied().collect();
    different.len() == present.len()
}

pub(super) fn median(sample: &ColumnSample) -> Option<f64> {
    let mut numbers: Vec<f64> = sample.present().filter_map(|value| value.parse().ok()).collect();
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied()
}

/// The value of a column that says yes: known by its name, or else a guess, which is the larger of two.
pub(super) fn yes_value(sample: &ColumnSample) -> Option<(String, bool)> {
    let values = distinct(sample);
    if let Some(yes) = values.iter().find(|value| is_yes(value)) {
        return Some(((*yes).to_owned(), true));
    }
    let number = |value: &&&str| value.parse::<f64>().unwrap_or(f64::NEG_INFINITY);
    let largest = values.iter().max_by(|one, other| number(one).total_cmp(&number(other)).then(one.cmp(other)));
    largest.map(|value| ((*value).to_owned(), false))
}
