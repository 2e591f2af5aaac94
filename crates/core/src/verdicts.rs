//! Where an engine puts its verdicts, on their way into batches.

use std::sync::{Arc, LazyLock};

use arrow::array::{
    ArrayRef, BooleanBuilder, DictionaryArray, Float64Builder, Int32Array, Int64Builder, RecordBatch,
    StringArray, StringBuilder, TimestampNanosecondArray, UInt64Builder,
};

use crate::{Kind, Selection, Time, Value, Verdict, VerdictBatch, verdict_schema};

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
    /// The streams whose values, spawns and closes are wanted; `None`: all.
    changes_of: Option<Vec<bool>>,
    /// Of these, the streams whose values are wanted though they are as before; `None`: all.
    repeats_of: Option<Vec<bool>>,
    triggers: bool,
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
            changes_of: None,
            repeats_of: None,
            triggers: true,
            outlet: Box::new(outlet),
            max_rows: max_rows.max(1),
            stream_names: Arc::new(StringArray::from_iter_values(streams)),
            columns: ColumnBuilders::default(),
        }
    }

    /// Takes values, spawns and closes of these streams only, if it takes them at all. `repeated` are those
    /// of them whose every value is wanted; of the others an engine may leave out one that is as before.
    #[must_use]
    pub fn with_changes_of(mut self, streams: &[usize], repeated: &[usize]) -> Verdicts {
        let flags = |streams: &[usize]| {
            let last = streams.iter().max().map_or(0, |last| last + 1);
            (0..last).map(|stream| streams.contains(&stream)).collect()
        };
        self.changes_of = Some(flags(streams));
        self.repeats_of = Some(flags(repeated));
        self
    }

    /// Takes no triggers.
    #[must_use]
    pub fn without_triggers(mut self) -> Verdicts {
        self.triggers = false;
        self
    }

    /// What somebody reads.
    pub fn selection(&self) -> Selection {
        self.selection
    }

    /// Whether a value of a stream that is as before is wanted, too. Where it is not, an engine may say it all
    /// the same.
    pub fn wants_repeats(&self, stream: usize) -> bool {
        let of_stream = |streams: &Vec<bool>| streams.get(stream).is_some_and(|wanted| *wanted);
        self.repeats_of.as_ref().is_none_or(of_stream)
    }

    /// Whether somebody reads this of a stream: an engine need not build anything else.
    pub fn wants(&self, kind: Kind, stream: usize) -> bool {
        let of_stream = |streams: &Vec<bool>| streams.get(stream).is_some_and(|wanted| *wanted);
        let is_wanted = match kind {
            Kind::Alarm | Kind::Clear => true,
            Kind::Trigger => self.triggers,
            Kind::Value | Kind::Spawn | Kind::Close => self.changes_of.as_ref().is_none_or(of_stream),
        };
        is_wanted && kind.is_in(self.selection)
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

    /// An alarm was raised: what about, and the whole in a sentence.
    ///
    /// # Errors
    /// The run is ending.
    pub fn alarm(
        &mut self,
        time: Time,
        stream: usize,
        instance: Option<&str>,
        value: Value<'_>,
        message: &str,
    ) -> Result<(), Closed> {
        self.push(time, Kind::Alarm, stream, instance, Some(value), Some(message))
    }

    /// An alarm was cleared: what about, and the whole in a sentence.
    ///
    /// # Errors
    /// The run is ending.
    pub fn clear(
        &mut self,
        time: Time,
        stream: usize,
        instance: Option<&str>,
        value: Value<'_>,
        message: &str,
    ) -> Result<(), Closed> {
        self.push(time, Kind::Clear, stream, instance, Some(value), Some(message))
    }

    /// Says a verdict again, of a stream that has this index here.
    ///
    /// # Errors
    /// The run is ending.
    pub fn repeat(&mut self, verdict: &Verdict<'_>, stream: usize) -> Result<(), Closed> {
        self.push(verdict.time, verdict.kind, stream, verdict.instance, verdict.value, verdict.message)
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
        if !self.wants(kind, stream) {
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
        verdicts.alarm(Time(5), 1, None, Value::Float(0.2), "unfair").unwrap();
        verdicts.clear(Time(6), 1, None, Value::Float(0.1), "fair").unwrap();
        verdicts.flush().unwrap();
        verdicts.flush().unwrap();
        batches.take()
    }

    #[test]
    fn what_is_pushed_is_read_back_whatever_the_batch_size() {
        let whole = collect(Selection::Changes, 1000);
        assert_eq!(whole.len(), 1);
        let rows: Vec<_> = whole[0].iter().collect();
        assert_eq!(rows.len(), 11);
        assert_eq!((rows[3].kind, rows[3].value), (Kind::Value, Some(Value::UInt(u64::MAX))));
        assert_eq!((rows[6].stream, rows[6].instance), ("amount", Some("[7]")));
        assert_eq!((rows[7].stream, rows[7].message, rows[7].time), ("trigger_0", Some("too much"), Time(3)));
        let pieces = collect(Selection::Changes, 2);
        assert_eq!(pieces.len(), 6);
        assert_eq!(pieces.iter().flat_map(VerdictBatch::iter).collect::<Vec<_>>(), rows);
    }

    #[test]
    fn a_selection_is_the_same_early_and_late() {
        for (selection, expected) in [(Selection::Alarms, 2), (Selection::Triggers, 3)] {
            let early = collect(selection, 1000);
            let late = collect(Selection::Changes, 1000)[0].select(selection);
            assert_eq!(early[0].iter().collect::<Vec<_>>(), late.iter().collect::<Vec<_>>());
            assert_eq!((late.len(), late.count(Kind::Alarm)), (expected, 1));
        }
    }

    #[test]
    fn changes_of_other_streams_are_left_out() {
        let nobody = |_: VerdictBatch| Ok(());
        let streams = ["a".to_owned(), "b".to_owned()];
        let verdicts = Verdicts::new(&streams, Selection::Changes, 10, nobody).with_changes_of(&[1], &[]);
        assert!(
            !verdicts.wants(Kind::Value, 0)
                && verdicts.wants(Kind::Value, 1)
                && verdicts.wants(Kind::Trigger, 0)
        );
        assert!(!verdicts.wants(Kind::Spawn, 7) && !verdicts.wants_repeats(1));
    }
}
