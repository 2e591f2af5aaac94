//! Generates events for a specification: few values, many nulls, times that coincide and times far apart.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Float64Array, Int8Array, Int16Array, Int32Array,
    Int64Array, RecordBatch, StringArray, StructArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use fairstream_core::{EventBatch, Position, WantedColumn};

use super::draft::Input;
use super::random::Random;

#[derive(Clone, Debug)]
pub(super) struct Event {
    /// In milliseconds since the clock started.
    pub(super) time: i64,
    /// One for each input, in the notation of CSV, or JSON for a tuple.
    pub(super) values: Vec<Option<String>>,
}

#[derive(Clone, Debug)]
pub(super) struct Trace {
    pub(super) columns: Vec<String>,
    pub(super) events: Vec<Event>,
    /// End of the clock after the last event, in milliseconds since it started.
    pub(super) until: i64,
}

impl Trace {
    pub(super) fn random(inputs: &[Input], random: &mut Random) -> Trace {
        // Inputs mostly occur in the same few combinations.
        let mut patterns: Vec<Vec<bool>> = vec![vec![true; inputs.len()]];
        for _ in 0..random.below(4) + 1 {
            patterns.push(inputs.iter().map(|_| random.chance(50)).collect());
        }
        let mut time = 0;
        let mut events = Vec::new();
        for _ in 0..random.below(51) + 10 {
            time += [0, 0, 50, 100, 250, 250, 500, 500, 1000, 1000, 1750, 3000, 6000]
                [random.weighted(&[2, 2, 1, 2, 2, 2, 3, 3, 3, 3, 1, 1, 1])];
            let pattern = random.choose(&patterns);
            let mut value = |(input, here): (&Input, bool)| {
                let here = here != random.chance(8);
                here.then(|| random.choose(&input.domain))
            };
            events.push(Event { time, values: inputs.iter().zip(pattern).map(&mut value).collect() });
        }
        let until = time + [0, 250, 2000, 7500][random.below(4)];
        Trace { columns: inputs.iter().map(|input| input.name.clone()).collect(), events, until }
    }

    /// The trace as CSV with times relative to the start of the clock; as JSON lines if there are tuples.
    pub(super) fn text(&self) -> String {
        let mut values = self.events.iter().flat_map(|event| &event.values).flatten();
        if values.any(|value| value.starts_with('[')) { self.json() } else { self.csv() }
    }

    fn json(&self) -> String {
        let mut text = String::new();
        for event in &self.events {
            text += &format!("{{\"time\":{}", seconds(event.time));
            for (name, value) in self.columns.iter().zip(&event.values) {
                match value {
                    Some(value) if value.starts_with('[') => text += &format!(",\"{name}\":{value}"),
                    Some(value) => text += &format!(",\"{name}\":{value:?}"),
                    None => {}
                }
            }
            text += "}\n";
        }
        text
    }

    fn csv(&self) -> String {
        let mut text = format!("time,{}\n", self.columns.join(","));
        for event in &self.events {
            let values: Vec<&str> =
                event.values.iter().map(|value| value.as_deref().unwrap_or_default()).collect();
            text += &format!("{},{}\n", seconds(event.time), values.join(","));
        }
        text
    }

    /// Some of the events as a batch for the engine, with times from `start` (in nanoseconds) on.
    pub(super) fn batch(&self, from: usize, to: usize, wanted: &[WantedColumn], start: i64) -> EventBatch {
        let events = &self.events[from..to];
        let column = |wanted: &WantedColumn| {
            let index = self.columns.iter().position(|name| *name == wanted.name).expect("an input");
            let texts: Vec<Option<&str>> =
                events.iter().map(|event| event.values[index].as_deref()).collect();
            array(&wanted.data_type, &texts)
        };
        let fields: Vec<Field> =
            wanted.iter().map(|wanted| Field::new(&wanted.name, wanted.data_type.clone(), true)).collect();
        let columns: Vec<ArrayRef> = wanted.iter().map(column).collect();
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(events.len()));
        let rows = RecordBatch::try_new_with_options(Schema::new(fields).into(), columns, &options)
            .expect("columns");
        let times: Vec<i64> = events.iter().map(|event| start + event.time * 1_000_000).collect();
        let numbers: Vec<u64> = (from..to).map(|row| row as u64 + 2).collect();
        EventBatch::new(rows, times, numbers, Position::default())
    }
}

/// Milliseconds as seconds.
pub(super) fn seconds(millis: i64) -> String {
    format!("{}", millis as f64 / 1000.0)
}

fn array(data_type: &DataType, texts: &[Option<&str>]) -> ArrayRef {
    fn parse<T: std::str::FromStr>(text: &str) -> T {
        text.parse().ok().expect("a value of the domain")
    }
    macro_rules! parsed {
        ($array:ty) => {
            Arc::new(texts.iter().map(|text| text.map(parse)).collect::<$array>())
        };
    }
    match data_type {
        DataType::Boolean => parsed!(BooleanArray),
        DataType::Int8 => parsed!(Int8Array),
        DataType::Int16 => parsed!(Int16Array),
        DataType::Int32 => parsed!(Int32Array),
        DataType::Int64 => parsed!(Int64Array),
        DataType::UInt8 => parsed!(UInt8Array),
        DataType::UInt16 => parsed!(UInt16Array),
        DataType::UInt32 => parsed!(UInt32Array),
        DataType::UInt64 => parsed!(UInt64Array),
        DataType::Float64 => parsed!(Float64Array),
        DataType::Utf8 => Arc::new(StringArray::from(texts.to_vec())),
        DataType::Binary => {
            let bytes: Vec<Option<Vec<u8>>> = texts.iter().map(|text| text.map(from_hex)).collect();
            Arc::new(BinaryArray::from_iter(bytes))
        }
        DataType::Decimal128(precision, scale) => {
            let digits = |text: &str| (parse::<f64>(text) * 100.0) as i128 * 10_i128.pow(*scale as u32 - 2);
            let array: Decimal128Array = texts.iter().map(|text| text.map(digits)).collect();
            Arc::new(array.with_precision_and_scale(*precision, *scale).expect("digits"))
        }
        DataType::Struct(parts) => {
            let tuples: Vec<Option<Vec<serde_json::Value>>> =
                texts.iter().map(|text| text.map(|text| serde_json::from_str(text).unwrap())).collect();
            let part = |(index, part): (usize, &FieldRef)| {
                let text = |tuple: &Option<Vec<serde_json::Value>>| {
                    tuple.as_ref().map(|tuple| match &tuple[index] {
                        serde_json::Value::String(text) => text.clone(),
                        other => other.to_string(),
                    })
                };
                let texts: Vec<Option<String>> = tuples.iter().map(text).collect();
                array(part.data_type(), &texts.iter().map(Option::as_deref).collect::<Vec<_>>())
            };
            let columns = parts.iter().enumerate().map(part).collect();
            let nulls = NullBuffer::from_iter(texts.iter().map(Option::is_some));
            Arc::new(StructArray::new(parts.clone(), columns, Some(nulls)))
        }
        other => panic!("no input has the type {other}"),
    }
}

fn from_hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2)
        .map(|byte| u8::from_str_radix(&text[2 * byte..2 * byte + 2], 16).expect("hex"))
        .collect()
}
