//! Rows of text: accepted rows have the values that the `csv` and `serde_json` crates find.

use arrow::datatypes::{DataType, Field};
use fairstream_core::WantedColumn;
use fairstream_csv::CsvSources;
use fairstream_json::JsonSources;
use serde_json::Value;

use crate::reading::{Question, offers, read};

/// CSV: every column is read as text, and the first is the time.
pub(crate) fn csv(bytes: &[u8]) {
    let question = |path: &std::path::Path| {
        let mut question = Question::default();
        let mut header = csv::ReaderBuilder::new().from_reader(bytes);
        let first = header.headers().ok()?.get(0)?.to_owned();
        question.options.set("time", first);
        question.options.set("empty", "value");
        let names = offers(&CsvSources, path, &question)?;
        question.wanted = names.iter().map(|name| WantedColumn::new(name, DataType::Utf8)).collect();
        Some(question)
    };
    let Some(reading) = read(&CsvSources, "x.csv", bytes, question) else { return };
    // With quotes inside a field, or unusual line ends, the two parsers legitimately differ.
    if bytes.contains(&b'\r') || bytes.starts_with(b"\xEF\xBB\xBF") || !reading.rejected.is_empty() {
        return;
    }
    let mut records = csv::ReaderBuilder::new().flexible(true).from_reader(bytes);
    let expected = records.records().map(|record| record.ok());
    for (row, expected) in reading.rows.iter().zip(expected) {
        let Some(expected) = expected else { return };
        let found: Vec<&str> = row.values.iter().map(|value| value.as_deref().unwrap_or_default()).collect();
        assert_eq!(found, expected.iter().collect::<Vec<_>>(), "row {}", row.number);
    }
}

/// JSON lines.
pub(crate) fn json(bytes: &[u8]) {
    let pair = [("0", DataType::UInt8), ("1", DataType::Utf8)];
    let pair = pair.map(|(name, data_type)| Field::new(name, data_type, false));
    let wanted = [
        ("text", DataType::Utf8),
        ("id", DataType::UInt64),
        ("flag", DataType::Boolean),
        ("number", DataType::Float64),
        ("in.side", DataType::Int16),
        ("sum", DataType::Decimal128(28, 18)),
        ("pair", DataType::Struct(pair.to_vec().into())),
    ];
    let question = Question {
        wanted: wanted.map(|(name, data_type)| WantedColumn::new(name, data_type)).to_vec(),
        ..Question::default()
    };
    let Some(reading) = read(&JsonSources, "x.jsonl", bytes, |_| Some(question.clone())) else { return };
    let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    for row in &reading.rows {
        let line = lines[usize::try_from(row.number).unwrap() - 1];
        let line = line.strip_prefix(b"\xEF\xBB\xBF").filter(|_| row.number == 1).unwrap_or(line);
        // Numbers that are too large for serde_json are accepted in columns that are not requested.
        let Ok(value) = serde_json::from_slice::<Value>(line) else {
            assert!(String::from_utf8_lossy(line).contains(|digit: char| digit.is_ascii_digit()));
            continue;
        };
        assert!(value.is_object(), "row {}", row.number);
        let is = |index: usize| row.values[index].as_deref();
        assert_eq!(is(0), value["text"].as_str(), "row {}", row.number);
        if let Some(id) = value["id"].as_u64() {
            assert_eq!(is(1), Some(id.to_string().as_str()), "row {}", row.number);
        }
        if let Some(flag) = value["flag"].as_bool() {
            assert_eq!(is(2), Some(flag.to_string().as_str()), "row {}", row.number);
        }
        if let Some(number) = value["number"].as_f64() {
            // serde_json has a fast path that may miss the nearest float by one bit.
            let found = is(3).and_then(|text| text.parse::<f64>().ok());
            let is_near = |found: f64| found == number || (found - number).abs() <= number.abs() * 1e-15;
            assert!(found.is_some_and(is_near), "row {}: {found:?}, {number}", row.number);
        }
        assert_eq!(is(6).is_some(), value["pair"].is_array(), "row {}", row.number);
    }
}
