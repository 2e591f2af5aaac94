//! Where an engine puts its verdicts, on their way into batches or to a hearer.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};

use crate::verdict_columns::VerdictColumns;
use crate::{Hearer, Instance, Kind, Said, Selection, Time, Value, Verdict, VerdictBatch, verdict_schema};

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
    way: Way,
}

/// Where verdicts go.
enum Way {
    Batches(Box<Batches>),
    Hearer(Box<dyn Hearer>),
}

struct Batches {
    outlet: Box<dyn Outlet>,
    max_rows: usize,
    stream_names: ArrayRef,
    columns: VerdictColumns,
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
        Verdicts::on_way(
            selection,
            Way::Batches(Box::new(Batches {
                outlet: Box::new(outlet),
                max_rows: max_rows.max(1),
                stream_names: Arc::new(StringArray::from_iter_values(streams)),
                columns: VerdictColumns::default(),
            })),
        )
    }

    /// Lets `hearer` hear what `selection` covers, at once and one by one.
    pub fn heard_by(selection: Selection, hearer: impl Hearer + 'static) -> Verdicts {
        Verdicts::on_way(selection, Way::Hearer(Box::new(hearer)))
    }

    fn on_way(selection: Selection, way: Way) -> Verdicts {
        Verdicts { selection, changes_of: None, repeats_of: None, triggers: true, way }
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
        let is_open = match &self.way {
            Way::Batches(batches) => batches.outlet.is_open(),
            Way::Hearer(hearer) => hearer.is_open(),
        };
        if is_open { Ok(()) } else { Err(Closed) }
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

    /// Says any verdict. Costs next to nothing if nobody reads it.
    ///
    /// # Errors
    /// The run is ending.
    #[inline]
    pub fn say(&mut self, said: &Said<'_>) -> Result<(), Closed> {
        if !self.wants(said.kind, said.stream) {
            return Ok(());
        }
        match &mut self.way {
            Way::Batches(batches) => batches.push(said),
            Way::Hearer(hearer) => hearer.hear(said),
        }
    }

    /// Hands on what has been collected. The pipeline calls it after each batch of events.
    ///
    /// # Errors
    /// The run is ending.
    pub fn flush(&mut self) -> Result<(), Closed> {
        match &mut self.way {
            Way::Batches(batches) => batches.flush(),
            Way::Hearer(_) => Ok(()),
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
        let instance = instance.as_ref().map(|label| label as &dyn Instance);
        self.say(&Said { time, kind, stream, instance, value, message })
    }
}

impl Batches {
    fn push(&mut self, said: &Said<'_>) -> Result<(), Closed> {
        self.columns.push(said);
        if self.columns.len() >= self.max_rows { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Closed> {
        if self.columns.len() == 0 {
            return Ok(());
        }
        let rows = self.columns.finish(&self.stream_names);
        match RecordBatch::try_new(verdict_schema(), rows).ok().and_then(VerdictBatch::new) {
            Some(batch) => self.outlet.take(batch),
            None => Err(Closed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    fn streams() -> [String; 2] {
        ["amount".to_owned(), "trigger_0".to_owned()]
    }

    fn collect(selection: Selection, max_rows: usize) -> Vec<VerdictBatch> {
        let batches = Rc::new(RefCell::new(Vec::new()));
        let taken = Rc::clone(&batches);
        let mut verdicts = Verdicts::new(&streams(), selection, max_rows, move |batch| {
            taken.borrow_mut().push(batch);
            Ok(())
        });
        say_all(&mut verdicts);
        batches.take()
    }

    /// Says one verdict of each kind and of each type of value.
    fn say_all(verdicts: &mut Verdicts) {
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

    /// Who hears verdicts one by one hears what is read back from batches.
    #[test]
    fn a_hearer_hears_what_batches_hold() {
        struct Again(Verdicts);

        impl Hearer for Again {
            fn hear(&mut self, said: &Said<'_>) -> Result<(), Closed> {
                self.0.say(said)?;
                self.0.flush()
            }
        }

        let selections = [Selection::Alarms, Selection::Triggers, Selection::Changes];
        for selection in selections {
            let (direct, heard) = (Rc::new(RefCell::new(Vec::new())), Rc::new(RefCell::new(Vec::new())));
            let taking = |to: &Rc<RefCell<Vec<VerdictBatch>>>| {
                let taken = Rc::clone(to);
                Verdicts::new(&streams(), selection, 5, move |batch| {
                    taken.borrow_mut().push(batch);
                    Ok(())
                })
            };
            let mut verdicts = taking(&direct);
            say_all(&mut verdicts);
            say_all(&mut Verdicts::heard_by(selection, Again(taking(&heard))));
            let (direct, heard) = (direct.take(), heard.take());
            let rows = |batches: &[VerdictBatch]| {
                batches.iter().flat_map(VerdictBatch::iter).map(|row| format!("{row:?}")).collect::<Vec<_>>()
            };
            assert_eq!(rows(&heard), rows(&direct));
            assert!(rows(&heard).len() >= 2, "{selection:?}");
        }
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
