//! The columns that the first lines have, and their types. Nested objects and arrays give a column for each value.

use std::io;

use arrow::datatypes::DataType;
use fairstream_core::WantedColumn;
use fairstream_files::NextRow;
use serde_json::Value;

use crate::lines::Lines;

/// Number of lines that are surveyed.
const LINES: usize = 1000;
/// Maximum number of columns that are found.
const MOST_COLUMNS: usize = 1000;
/// Maximum number of elements of an array that become columns.
const MOST_ELEMENTS: usize = 64;

/// What the values of a column have been so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Bool,
    Unsigned,
    Signed,
    Float,
    Text,
    Mixed,
}

impl Seen {
    fn and(self, other: Seen) -> Seen {
        let is_number = |seen: Seen| matches!(seen, Seen::Unsigned | Seen::Signed | Seen::Float);
        match (self, other) {
            (one, same) if one == same => one,
            (one, other) if !is_number(one) || !is_number(other) => Seen::Mixed,
            (Seen::Float, _) | (_, Seen::Float) => Seen::Float,
            _ => Seen::Signed,
        }
    }
}

/// The columns of the first lines, in the order in which they appear. A column whose values are of several types has
/// none, and is left out.
pub(crate) fn columns(lines: &mut Lines) -> io::Result<Vec<WantedColumn>> {
    let mut seen: Vec<(String, Seen)> = Vec::new();
    for _ in 0..LINES {
        if lines.read(None)? != NextRow::Row {
            break;
        }
        // A line that is no JSON is a bad row, which a run reports.
        if let Ok(Value::Object(object)) = serde_json::from_slice(lines.text()) {
            object.iter().for_each(|(key, value)| survey(key.clone(), value, &mut seen));
        }
    }
    let column = |(name, seen): (String, Seen)| {
        let data_type = match seen {
            Seen::Bool => DataType::Boolean,
            Seen::Unsigned => DataType::UInt64,
            Seen::Signed => DataType::Int64,
            Seen::Float => DataType::Float64,
            Seen::Text => DataType::Utf8,
            Seen::Mixed => return None,
        };
        Some(WantedColumn::new(name, data_type))
    };
    Ok(seen.into_iter().filter_map(column).collect())
}

fn survey(name: String, value: &Value, seen: &mut Vec<(String, Seen)>) {
    let kind = match value {
        Value::Null => return,
        Value::Object(object) => {
            return object.iter().for_each(|(key, value)| survey(format!("{name}.{key}"), value, seen));
        }
        Value::Array(elements) => {
            let elements = elements.iter().take(MOST_ELEMENTS).enumerate();
            return elements.for_each(|(index, value)| survey(format!("{name}.{index}"), value, seen));
        }
        Value::Bool(_) => Seen::Bool,
        Value::Number(number) if number.is_u64() => Seen::Unsigned,
        Value::Number(number) if number.is_i64() => Seen::Signed,
        Value::Number(_) => Seen::Float,
        Value::String(_) => Seen::Text,
    };
    match seen.iter().position(|(known, _)| *known == name) {
        Some(known) => seen[known].1 = seen[known].1.and(kind),
        None if seen.len() < MOST_COLUMNS => seen.push((name, kind)),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use fairstream_core::StopToken;
    use fairstream_files::Input;

    use super::*;

    #[test]
    fn every_value_is_a_column_with_the_type_of_all_its_values() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        let lines = "{\"a\":1,\"b\":{\"c\":\"x\",\"d\":[true,[2.5]]},\"e\":1,\"f\":null}\n\nno json\n\
                     {\"a\":-1,\"b\":{\"c\":null,\"d\":[false,[1]]},\"e\":\"y\"}\n";
        std::fs::write(&path, lines).unwrap();
        let input = Input::open(path.to_str().unwrap(), &StopToken::default()).unwrap();
        let found = columns(&mut Lines::new(input, 1 << 20)).unwrap();
        let found: Vec<String> =
            found.iter().map(|column| format!("{} {}", column.name, column.data_type)).collect();
        assert_eq!(found, ["a Int64", "b.c Utf8", "b.d.0 Boolean", "b.d.1.0 Float64"]);
    }
}
