//! Verdicts: what an engine says, as rows of one fixed schema.

use std::fmt;
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, AsArray, BooleanArray, DictionaryArray, PrimitiveArray, RecordBatch, StringArray};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{
    DataType, Field, Float64Type, Int32Type, Int64Type, Schema, SchemaRef, TimeUnit, TimestampNanosecondType,
    UInt64Type,
};

use crate::{Selection, Time};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A trigger fired: the specification is violated.
    Trigger,
    /// A stream, or an instance of it, has a new value.
    Value,
    /// An instance came into being.
    Spawn,
    /// An instance ended.
    Close,
    /// An alarm was raised, by a judge behind the engine.
    Alarm,
    /// An alarm was cleared.
    Clear,
}

impl Kind {
    pub(crate) const ALL: [Kind; 6] =
        [Kind::Trigger, Kind::Value, Kind::Spawn, Kind::Close, Kind::Alarm, Kind::Clear];

    /// The word in the column `kind`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Trigger => "trigger",
            Kind::Value => "value",
            Kind::Spawn => "spawn",
            Kind::Close => "close",
            Kind::Alarm => "alarm",
            Kind::Clear => "clear",
        }
    }

    /// Whether a selection covers verdicts of this kind.
    pub(crate) fn is_in(self, selection: Selection) -> bool {
        match self {
            Kind::Alarm | Kind::Clear => true,
            Kind::Trigger => selection >= Selection::Triggers,
            Kind::Value | Kind::Spawn | Kind::Close => selection >= Selection::Changes,
        }
    }
}

/// A value of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// True or false.
    Bool(bool),
    /// A signed number.
    Int(i64),
    /// An unsigned number.
    UInt(u64),
    /// A number with a fraction; may be infinite, never NaN.
    Float(f64),
    /// A string; bytes as hexadecimal digits; a fixed-point number as decimal digits.
    Text(&'a str),
    /// A tuple, as a JSON array.
    Json(&'a str),
}

/// As it is, without quotes: for sinks of plain text.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(value) => value.fmt(f),
            Value::Int(value) => value.fmt(f),
            Value::UInt(value) => value.fmt(f),
            Value::Float(value) => value.fmt(f),
            Value::Text(value) | Value::Json(value) => f.write_str(value),
        }
    }
}

/// One row of verdicts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict<'a> {
    /// When it happened, in event time.
    pub time: Time,
    /// What happened.
    pub kind: Kind,
    /// To which stream.
    pub stream: &'a str,
    /// To which instance: its parameters as a JSON array. `None` for a stream without instances.
    pub instance: Option<&'a str>,
    /// The new value, when `kind` is [`Kind::Value`]; what an alarm is about, when it is
    /// [`Kind::Alarm`] or [`Kind::Clear`].
    pub value: Option<Value<'a>>,
    /// The message, when `kind` is [`Kind::Trigger`], [`Kind::Alarm`] or [`Kind::Clear`].
    pub message: Option<&'a str>,
    /// What the message says as fields: a JSON object, when `kind` is [`Kind::Alarm`] or [`Kind::Clear`].
    pub details: Option<&'a str>,
}

/// The columns of every [`VerdictBatch`]: `time`, `kind`, `stream`, `instance`, then the value in
/// the one of `bool`, `int`, `uint`, `float`, `text`, `json` that fits its type, then `message`. An alarm
/// has its value in `float` and its details in `json`.
pub fn verdict_schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        let names = || DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        Arc::new(Schema::new(vec![
            Field::new("time", DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())), false),
            Field::new("kind", names(), false),
            Field::new("stream", names(), false),
            Field::new("instance", DataType::Utf8, true),
            Field::new("bool", DataType::Boolean, true),
            Field::new("int", DataType::Int64, true),
            Field::new("uint", DataType::UInt64, true),
            Field::new("float", DataType::Float64, true),
            Field::new("text", DataType::Utf8, true),
            Field::new("json", DataType::Utf8, true),
            Field::new("message", DataType::Utf8, true),
        ]))
    });
    Arc::clone(&SCHEMA)
}

/// Verdicts on their way to the sinks.
#[derive(Clone, Debug)]
pub struct VerdictBatch {
    rows: RecordBatch,
}

impl VerdictBatch {
    /// Takes rows of the [`verdict_schema`]; `None` if their columns differ from it, or if there
    /// is a kind that is none of [`Kind`].
    pub fn new(rows: RecordBatch) -> Option<VerdictBatch> {
        let same = rows.schema_ref().fields() == verdict_schema().fields();
        (same && View::of(&rows).kinds.iter().all(Option::is_some)).then_some(VerdictBatch { rows })
    }

    /// The rows as columns.
    pub fn rows(&self) -> &RecordBatch {
        &self.rows
    }

    /// How many verdicts there are.
    pub fn len(&self) -> usize {
        self.rows.num_rows()
    }

    /// Whether there is no verdict.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The verdicts one by one, for sinks that write rows.
    pub fn iter(&self) -> impl Iterator<Item = Verdict<'_>> {
        let columns = View::of(&self.rows);
        (0..self.len()).map(move |row| columns.verdict(row))
    }

    /// How many verdicts are of a kind.
    pub(crate) fn count(&self, kind: Kind) -> usize {
        let view = View::of(&self.rows);
        (0..self.len()).filter(|row| view.kind(*row) == kind).count()
    }

    /// Only what `selection` covers.
    pub(crate) fn select(&self, selection: Selection) -> VerdictBatch {
        if selection == Selection::Changes {
            return self.clone();
        }
        let view = View::of(&self.rows);
        let is_wanted = |row: usize| view.kind(row).is_in(selection);
        if (0..self.len()).all(is_wanted) {
            return self.clone();
        }
        let wanted: BooleanArray = (0..self.len()).map(|row| Some(is_wanted(row))).collect();
        // The mask has one entry a row, so filtering cannot fail.
        let rows = filter_record_batch(&self.rows, &wanted).unwrap_or_else(|_| self.rows.clone());
        VerdictBatch { rows }
    }
}

/// The columns of a batch, downcast once.
struct View<'a> {
    time: &'a PrimitiveArray<TimestampNanosecondType>,
    kind: &'a DictionaryArray<Int32Type>,
    /// What the keys of `kind` mean.
    kinds: Vec<Option<Kind>>,
    stream: &'a DictionaryArray<Int32Type>,
    stream_names: &'a StringArray,
    instance: &'a StringArray,
    bool: &'a BooleanArray,
    int: &'a PrimitiveArray<Int64Type>,
    uint: &'a PrimitiveArray<UInt64Type>,
    float: &'a PrimitiveArray<Float64Type>,
    text: &'a StringArray,
    json: &'a StringArray,
    message: &'a StringArray,
}

impl<'a> View<'a> {
    /// Of rows that have the verdict schema.
    fn of(rows: &'a RecordBatch) -> View<'a> {
        let kind = rows.column(1).as_dictionary::<Int32Type>();
        let named = |name| Kind::ALL.into_iter().find(|kind| Some(kind.name()) == name);
        let stream = rows.column(2).as_dictionary::<Int32Type>();
        View {
            time: rows.column(0).as_primitive(),
            kind,
            kinds: kind.values().as_string::<i32>().iter().map(named).collect(),
            stream,
            stream_names: stream.values().as_string(),
            instance: rows.column(3).as_string(),
            bool: rows.column(4).as_boolean(),
            int: rows.column(5).as_primitive(),
            uint: rows.column(6).as_primitive(),
            float: rows.column(7).as_primitive(),
            text: rows.column(8).as_string(),
            json: rows.column(9).as_string(),
            message: rows.column(10).as_string(),
        }
    }

    fn kind(&self, row: usize) -> Kind {
        let key = usize::try_from(self.kind.keys().value(row)).unwrap_or_default();
        // `VerdictBatch::new` has seen to it that every key means something.
        self.kinds[key].unwrap_or(Kind::Value)
    }

    fn verdict(&self, row: usize) -> Verdict<'a> {
        let text = |column: &'a StringArray| column.is_valid(row).then(|| column.value(row));
        let value = if self.float.is_valid(row) {
            Some(Value::Float(self.float.value(row)))
        } else if self.uint.is_valid(row) {
            Some(Value::UInt(self.uint.value(row)))
        } else if self.int.is_valid(row) {
            Some(Value::Int(self.int.value(row)))
        } else if self.bool.is_valid(row) {
            Some(Value::Bool(self.bool.value(row)))
        } else {
            text(self.text).map(Value::Text).or_else(|| text(self.json).map(Value::Json))
        };
        let stream = usize::try_from(self.stream.keys().value(row)).unwrap_or_default();
        let is_json_the_value = matches!(value, Some(Value::Json(_)));
        Verdict {
            time: Time(self.time.value(row)),
            kind: self.kind(row),
            stream: self.stream_names.value(stream),
            instance: text(self.instance),
            value,
            message: text(self.message),
            details: text(self.json).filter(|_| !is_json_the_value),
        }
    }
}
