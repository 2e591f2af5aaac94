//! Verdicts: what an engine says, as rows of one fixed schema.

use std::sync::{Arc, LazyLock};

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, BooleanBuilder, DictionaryArray, Float64Builder, Int32Array,
    Int64Builder, PrimitiveArray, RecordBatch, StringArray, StringBuilder, TimestampNanosecondArray,
    UInt64Builder,
};
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
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Trigger, Kind::Value, Kind::Spawn, Kind::Close];

    /// The word in the column `kind`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Trigger => "trigger",
            Kind::Value => "value",
            Kind::Spawn => "spawn",
            Kind::Close => "close",
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
    /// The new value, when `kind` is [`Kind::Value`].
    pub value: Option<Value<'a>>,
    /// The message, when `kind` is [`Kind::Trigger`].
    pub message: Option<&'a str>,
}

/// The columns of every [`VerdictBatch`]: `time`, `kind`, `stream`, `instance`, then the value in
/// the one of `bool`, `int`, `uint`, `float`, `text`, `json` that fits its type, then `message`.
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

    /// How many triggers fired.
    pub(crate) fn triggers(&self) -> usize {
        let view = View::of(&self.rows);
        (0..self.len()).filter(|row| view.kind(*row) == Kind::Trigger).count()
    }

    /// Only what `selection` covers.
    pub(crate) fn select(&self, selection: Selection) -> VerdictBatch {
        if selection == Selection::Changes {
            return self.clone();
        }
        let view = View::of(&self.rows);
        let wanted: BooleanArray = (0..self.len()).map(|row| Some(view.kind(row) == Kind::Trigger)).collect();
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
        Verdict {
            time: Time(self.time.value(row)),
            kind: self.kind(row),
            stream: self.stream_names.value(stream),
            instance: text(self.instance),
            value,
            message: text(self.message),
        }
    }
}

/// The run is ending: no further verdict is wanted. An engine that gets this returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no further verdict is wanted")]
pub struct Closed;

/// Where full batches of verdicts go.
pub trait Outlet {
    /// Takes a batch.
    ///
    /// # Errors
    /// The run is ending.
    fn take(&mut self, batch: VerdictBatch) -> Result<(), Closed>;

    /// Whether a batch would still be taken.
    fn is_open(&self) -> bool {
        true
    }
}

impl<F: FnMut(VerdictBatch) -> Result<(), Closed>> Outlet for F {
    fn take(&mut self, batch: VerdictBatch) -> Result<(), Closed> {
        self(batch)
    }
}

/// Where an engine puts its verdicts. Full batches go on to the sinks at once, so a long gap in
/// time with a verdict at every tick needs no memory to speak of.
pub struct Verdicts {
    selection: Selection,
    outlet: Box<dyn Outlet>,
    max_rows: usize,
    stream_names: ArrayRef,
    columns: ColumnBuilders,
}

#[derive(Default)]
struct ColumnBuilders {
    time: Vec<i64>,
    kind: Vec<i32>,
    stream: Vec<i32>,
    instance: StringBuilder,
    bool: BooleanBuilder,
    int: Int64Builder,
    uint: UInt64Builder,
    float: Float64Builder,
    text: StringBuilder,
    json: StringBuilder,
    message: StringBuilder,
}

impl Verdicts {
    /// Collects what `selection` covers, for an engine with these streams, and hands batches of
    /// at most `max_rows` to `outlet`.
    pub fn new(
        streams: &[String],
        selection: Selection,
        max_rows: usize,
        outlet: impl Outlet + 'static,
    ) -> Verdicts {
        Verdicts {
            selection,
            outlet: Box::new(outlet),
            max_rows: max_rows.max(1),
            stream_names: Arc::new(StringArray::from_iter_values(streams)),
            columns: ColumnBuilders::default(),
        }
    }

    /// What somebody reads: an engine need not build anything else.
    pub fn selection(&self) -> Selection {
        self.selection
    }

    /// Whether verdicts are still wanted: for engines to ask now and then in work that yields
    /// none for long.
    ///
    /// # Errors
    /// The run is ending.
    pub fn check(&self) -> Result<(), Closed> {
        if self.outlet.is_open() { Ok(()) } else { Err(Closed) }
    }

    /// A trigger fired.
    ///
    /// # Errors
    /// The run is ending.
    pub fn trigger(
        &mut self,
        time: Time,
        stream: usize,
        instance: Option<&str>,
        message: &str,
    ) -> Result<(), Closed> {
        self.push(time, Kind::Trigger, stream, instance, None, Some(message))
    }

    /// A stream, or an instance of it, has a new value.
    ///
    /// # Errors
    /// The run is ending.
    pub fn value(
        &mut self,
        time: Time,
        stream: usize,
        instance: Option<&str>,
        value: Value<'_>,
    ) -> Result<(), Closed> {
        self.push(time, Kind::Value, stream, instance, Some(value), None)
    }

    /// An instance came into being.
    ///
    /// # Errors
    /// The run is ending.
    pub fn spawn(&mut self, time: Time, stream: usize, instance: &str) -> Result<(), Closed> {
        self.push(time, Kind::Spawn, stream, Some(instance), None, None)
    }

    /// An instance ended.
    ///
    /// # Errors
    /// The run is ending.
    pub fn close(&mut self, time: Time, stream: usize, instance: &str) -> Result<(), Closed> {
        self.push(time, Kind::Close, stream, Some(instance), None, None)
    }

    /// Hands on what has been collected. The pipeline calls it after each batch of events.
    ///
    /// # Errors
    /// The run is ending.
    pub fn flush(&mut self) -> Result<(), Closed> {
        if self.columns.time.is_empty() {
            return Ok(());
        }
        let rows = self.columns.finish(&self.stream_names);
        match RecordBatch::try_new(verdict_schema(), rows).ok().and_then(VerdictBatch::new) {
            Some(batch) => self.outlet.take(batch),
            None => Err(Closed),
        }
    }

    fn push(
        &mut self,
        time: Time,
        kind: Kind,
        stream: usize,
        instance: Option<&str>,
        value: Option<Value<'_>>,
        message: Option<&str>,
    ) -> Result<(), Closed> {
        if self.selection == Selection::Triggers && kind != Kind::Trigger {
            return Ok(());
        }
        let columns = &mut self.columns;
        columns.time.push(time.0);
        columns.kind.push(kind as i32);
        columns.stream.push(i32::try_from(stream).unwrap_or(i32::MAX));
        columns.instance.append_option(instance);
        columns.value(value);
        columns.message.append_option(message);
        if columns.time.len() >= self.max_rows {
            self.flush()?;
        }
        Ok(())
    }
}

impl ColumnBuilders {
    fn value(&mut self, value: Option<Value<'_>>) {
        let (mut bool, mut int, mut uint, mut float, mut text, mut json) =
            (None, None, None, None, None, None);
        match value {
            Some(Value::Bool(value)) => bool = Some(value),
            Some(Value::Int(value)) => int = Some(value),
            Some(Value::UInt(value)) => uint = Some(value),
            Some(Value::Float(value)) => float = Some(value),
            Some(Value::Text(value)) => text = Some(value),
            Some(Value::Json(value)) => json = Some(value),
            None => {}
        }
        self.bool.append_option(bool);
        self.int.append_option(int);
        self.uint.append_option(uint);
        self.float.append_option(float);
        self.text.append_option(text);
        self.json.append_option(json);
    }

    fn finish(&mut self, stream_names: &ArrayRef) -> Vec<ArrayRef> {
        static KIND_NAMES: LazyLock<ArrayRef> =
            LazyLock::new(|| Arc::new(StringArray::from_iter_values(Kind::ALL.map(Kind::name))));
        let names = |keys: &mut Vec<i32>, names: &ArrayRef| -> ArrayRef {
            let keys = Int32Array::from(std::mem::take(keys));
            Arc::new(DictionaryArray::new(keys, Arc::clone(names)))
        };
        vec![
            Arc::new(TimestampNanosecondArray::from(std::mem::take(&mut self.time)).with_timezone("UTC")),
            names(&mut self.kind, &KIND_NAMES),
            names(&mut self.stream, stream_names),
            Arc::new(self.instance.finish()),
            Arc::new(self.bool.finish()),
            Arc::new(self.int.finish()),
            Arc::new(self.uint.finish()),
            Arc::new(self.float.finish()),
            Arc::new(self.text.finish()),
            Arc::new(self.json.finish()),
            Arc::new(self.message.finish()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// Pushes one verdict of each kind and of each type of value.
    fn collect(selection: Selection, max_rows: usize) -> Vec<VerdictBatch> {
        let batches = Rc::new(RefCell::new(Vec::new()));
        let taken = Rc::clone(&batches);
        let streams = ["amount".to_owned(), "trigger_0".to_owned()];
        let mut verdicts = Verdicts::new(&streams, selection, max_rows, move |batch| {
            taken.borrow_mut().push(batch);
            Ok(())
        });
        let values = [
            Value::Bool(true),
            Value::Int(-3),
            Value::UInt(u64::MAX),
            Value::Float(0.5),
            Value::Text("F"),
            Value::Json("[1,2]"),
        ];
        verdicts.spawn(Time(1), 0, "[7]").unwrap();
        for value in values {
            verdicts.value(Time(2), 0, Some("[7]"), value).unwrap();
        }
        verdicts.trigger(Time(3), 1, None, "too much").unwrap();
        verdicts.close(Time(4), 0, "[7]").unwrap();
        verdicts.flush().unwrap();
        verdicts.flush().unwrap();
        batches.take()
    }

    #[test]
    fn what_is_pushed_is_read_back_whatever_the_batch_size() {
        let whole = collect(Selection::Changes, 1000);
        assert_eq!(whole.len(), 1);
        let rows: Vec<_> = whole[0].iter().collect();
        assert_eq!(rows.len(), 9);
        assert_eq!((rows[3].kind, rows[3].value), (Kind::Value, Some(Value::UInt(u64::MAX))));
        assert_eq!((rows[6].stream, rows[6].instance), ("amount", Some("[7]")));
        assert_eq!((rows[7].stream, rows[7].message, rows[7].time), ("trigger_0", Some("too much"), Time(3)));
        let pieces = collect(Selection::Changes, 2);
        assert_eq!(pieces.len(), 5);
        assert_eq!(pieces.iter().flat_map(VerdictBatch::iter).collect::<Vec<_>>(), rows);
    }

    #[test]
    fn a_selection_is_the_same_early_and_late() {
        let early = collect(Selection::Triggers, 1000);
        let late = collect(Selection::Changes, 1000)[0].select(Selection::Triggers);
        assert_eq!(early[0].iter().collect::<Vec<_>>(), late.iter().collect::<Vec<_>>());
        assert_eq!((late.len(), late.triggers()), (1, 1));
    }
}
