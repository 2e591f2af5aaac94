//! The order of groups and strata wherever they are listed: values that are numbers compare as numbers, so 2 comes
//! before 10.

use std::cmp::Ordering;

use fairstream_core::{inside_array, next_element};

/// Compares two JSON arrays value by value. Numbers come before texts; an array comes before its continuations. Equal
/// only if both are the same text.
pub fn compare_values(one: &str, other: &str) -> Ordering {
    let (mut values, mut others) = (inside_array(one), inside_array(other));
    loop {
        match (next_element(&mut values), next_element(&mut others)) {
            (Some(value), Some(other)) => match compare_value(value, other) {
                Ordering::Equal => {}
                unequal => return unequal,
            },
            (None, None) => return one.cmp(other),
            (value, other) => return value.is_some().cmp(&other.is_some()),
        }
    }
}

/// A JSON array of values as a key, in the order of [`compare_values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValuesKey<T>(pub(crate) T);

impl<T: AsRef<str> + Eq> Ord for ValuesKey<T> {
    fn cmp(&self, other: &ValuesKey<T>) -> Ordering {
        compare_values(self.0.as_ref(), other.0.as_ref())
    }
}

impl<T: AsRef<str> + Eq> PartialOrd for ValuesKey<T> {
    fn partial_cmp(&self, other: &ValuesKey<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn compare_value(one: &str, other: &str) -> Ordering {
    let text = |value: &'_ str| value.len() > 1 && value.starts_with('"') && value.ends_with('"');
    match (number(one), number(other)) {
        (Some(one), Some(other)) => compare_numbers(one, other),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) if one.starts_with('[') && other.starts_with('[') => compare_values(one, other),
        // Without the quotes, so that a text comes before its continuations.
        (None, None) if text(one) && text(other) => one[1..one.len() - 1].cmp(&other[1..other.len() - 1]),
        (None, None) => one.cmp(other),
    }
}

/// A number of JSON. Integers are compared exactly.
#[derive(Clone, Copy)]
enum JsonNumber {
    Integer(i128),
    Other(f64),
}

fn number(value: &str) -> Option<JsonNumber> {
    if !value.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return None;
    }
    let integer = value.parse().ok().map(JsonNumber::Integer);
    integer.or_else(|| value.parse().ok().map(JsonNumber::Other))
}

fn compare_numbers(one: JsonNumber, other: JsonNumber) -> Ordering {
    let float = |number: JsonNumber| match number {
        JsonNumber::Integer(number) => number as f64,
        JsonNumber::Other(number) => number,
    };
    match (one, other) {
        (JsonNumber::Integer(one), JsonNumber::Integer(other)) => one.cmp(&other),
        (one, other) => float(one).total_cmp(&float(other)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// A column of groups: all of its values are of one type.
    fn column() -> impl Strategy<Value = Vec<Value>> {
        prop_oneof![
            prop::collection::vec(any::<i64>().prop_map(|number| json!(number)), 3),
            prop::collection::vec((-20..20_i64).prop_map(|number| json!(number)), 3),
            prop::collection::vec((-1e3..1e3_f64).prop_map(|number| json!(number)), 3),
            prop::collection::vec("[a-c\"\\\\,\\[ ü]{0,3}".prop_map(|text| json!(text)), 3),
            prop::collection::vec(any::<bool>().prop_map(|value| json!(value)), 3),
        ]
    }

    /// The order of the values themselves.
    fn expected(one: &Value, other: &Value) -> Ordering {
        match (one.as_i64().zip(other.as_i64()), one.as_f64().zip(other.as_f64())) {
            (Some((one, other)), _) => one.cmp(&other),
            (None, Some((one, other))) => one.partial_cmp(&other).unwrap(),
            (None, None) => Ordering::Equal,
        }
    }

    proptest! {
        #[test]
        fn numbers_compare_as_numbers(first in column(), second in column()) {
            let rows: Vec<(Value, Value)> = first.into_iter().zip(second).collect();
            let name = |(one, other): &(Value, Value)| json!([one, other]).to_string();
            for one in &rows {
                for other in &rows {
                    let found = compare_values(&name(one), &name(other));
                    // A total order, in which only what is the same is equal.
                    prop_assert_eq!(found, compare_values(&name(other), &name(one)).reverse());
                    prop_assert_eq!(found == Ordering::Equal, name(one) == name(other));
                    let should = match expected(&one.0, &other.0) {
                        Ordering::Equal if one.0 == other.0 => expected(&one.1, &other.1),
                        first => first,
                    };
                    prop_assert!(should == Ordering::Equal || found == should, "{:?} {:?}", one, other);
                    for third in &rows {
                        let is_before = |one, other| compare_values(&name(one), &name(other)) == Ordering::Less;
                        prop_assert!(
                            !(is_before(one, other) && is_before(other, third)) || is_before(one, third)
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn two_comes_before_ten() {
        let mut names =
            ["[10]", "[2]", "[-3]", "[2.5]", "[\"B\",10]", "[\"B\",9]", "[\"A b\",1]", "[\"A\",7]", "[]"];
        names.sort_by(|one, other| compare_values(one, other));
        let expected =
            ["[]", "[-3]", "[2]", "[2.5]", "[10]", "[\"A\",7]", "[\"A b\",1]", "[\"B\",9]", "[\"B\",10]"];
        assert_eq!(names, expected);
    }
}
