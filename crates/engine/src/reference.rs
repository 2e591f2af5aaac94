//! The reference engine: `rtlola-interpreter` behind checks.
//!
//! The interpreter panics on overflow, division by zero and more, accepts time that runs backwards, and keeps every
//! deadline of a gap in memory. This engine checks events before it passes them on, catches panics, and advances the
//! interpreter one deadline at a time.

use std::collections::HashMap;
use std::convert::Infallible;

use fairstream_core::{
    Engine, EngineError, EventBatch, Instance, Kind, Subscription, Time, VerdictRef, VerdictSink,
    WantedColumn, catch_panic,
};
use rtlola_frontend::mir::{OutputStream, Type, WindowOperation};
use rtlola_interpreter::config::OfflineMode;
use rtlola_interpreter::input::VectorFactory;
use rtlola_interpreter::monitor::{Change, Incremental};
use rtlola_interpreter::time::RelativeNanos;
use rtlola_interpreter::{ConfigBuilder, Monitor, Value};

use crate::Specification;
use crate::clock::Clock;
use crate::lifecycle::Lifecycle;
use crate::specification::{is_trigger, with_deep_stack};
use crate::timeline::{Timeline, check_columns};
use crate::value::{instance, read, with_verdict_value};

type Interpreter =
    Monitor<VectorFactory<Infallible, Vec<Value>>, OfflineMode<RelativeNanos>, Incremental, RelativeNanos>;

/// Evaluates a specification with `rtlola-interpreter`.
///
/// Verdicts of one instant come in the order of the streams in the specification; of one stream,
/// spawned instances first, then values, then closed instances, each in order of spawn.
pub struct ReferenceEngine {
    interpreter: Interpreter,
    wanted: Vec<WantedColumn>,
    streams: Vec<Stream>,
    names: Vec<String>,
    clock: Clock,
    timeline: Timeline,
    lifecycle: Lifecycle,
}

/// State of an output stream.
struct Stream {
    is_trigger: bool,
    /// The message of a trigger whose own message is empty.
    condition: String,
    /// The number of the spawn of each existing instance, by its parameters. Verdicts are sorted by it, because the
    /// interpreter reports instances in the order of a hash table.
    spawned: HashMap<Vec<Value>, u64>,
    /// How many instances were ever spawned.
    spawns: u64,
}

impl ReferenceEngine {
    /// An engine whose clock starts at `start`.
    ///
    /// # Errors
    /// The interpreter refuses the specification.
    pub fn new(spec: &Specification, start: Time) -> Result<ReferenceEngine, EngineError> {
        let mut windows = spec.mir().sliding_windows.iter().map(|window| window.op);
        if windows.any(|operation| operation == WindowOperation::Integral) {
            // Version 0.11 multiplies fractions of a second by ten.
            let reason = "rtlola-interpreter computes `integral` over a sliding window wrongly";
            return Err(EngineError::Build(reason.to_owned()));
        }
        let is_split = |output: &&OutputStream| matches!(output.params.as_slice(), [only] if matches!(only.ty, Type::Tuple(_)));
        if let Some(output) = spec.mir().outputs.iter().find(is_split) {
            let name = &output.name;
            let reason = format!(
                "rtlola-interpreter takes the parts of a tuple for parameters where the only parameter is one, as \
                 in `{name}`"
            );
            return Err(EngineError::Build(reason));
        }
        let build = || {
            ConfigBuilder::new()
                .with_ir(spec.mir().clone())
                .offline::<RelativeNanos>()
                .output_time::<RelativeNanos>()
                .with_event_factory::<VectorFactory<Infallible, Vec<Value>>>()
                .with_verdict::<Incremental>()
                .monitor_with_data(spec.mir().inputs.len())
        };
        let interpreter = catch_panic(build)
            .map_err(EngineError::Build)?
            .map_err(|error| EngineError::Build(error.to_string()))?;
        let streams = spec.mir().outputs.iter().map(|output| Stream {
            is_trigger: is_trigger(output),
            condition: spec.conditions(output).unwrap_or_default(),
            spawned: HashMap::new(),
            spawns: 0,
        });
        Ok(ReferenceEngine {
            interpreter,
            wanted: spec.wanted().to_vec(),
            streams: streams.collect(),
            names: spec.mir().outputs.iter().map(|output| output.name.clone()).collect(),
            clock: Clock::new(spec.mir()),
            timeline: Timeline::new(start),
            lifecycle: Lifecycle::default(),
        })
    }

    /// Whether an engine can be built for a specification.
    ///
    /// # Errors
    /// The interpreter refuses it; the error gives the reason.
    pub fn check(spec: &Specification) -> Result<(), EngineError> {
        with_deep_stack(|| ReferenceEngine::new(spec, Time(0)).map(|_| ())).map_err(EngineError::Build)?
    }

    /// Evaluates what is due before a row, and the row.
    fn event(
        &mut self,
        events: &EventBatch,
        index: usize,
        out: &mut dyn VerdictSink,
    ) -> Result<(), EngineError> {
        let bad = |column: Option<&str>, reason: String| EngineError::Event {
            index,
            column: column.map(str::to_owned),
            reason,
        };
        let time = events.time(index);
        let before = self.timeline.before(time).map_err(|reason| bad(None, reason))?;
        self.run_clock(before, Some(index), out)?;
        let values: Result<Vec<Value>, EngineError> = events
            .rows
            .columns()
            .iter()
            .zip(&self.wanted)
            .map(|(column, wanted)| read(column, index).map_err(|reason| bad(Some(&wanted.name), reason)))
            .collect();
        let values = values?;
        let since_start = self.timeline.since_start(time);
        let verdicts = catch_panic(|| self.interpreter.accept_event(values, since_start))
            .map_err(|panic| bad(None, explained(&panic)))?
            .map_err(|error| bad(None, error.to_string()))?;
        self.write_due(verdicts.timed, out)?;
        self.write(time, verdicts.event, out)
    }

    /// Evaluates everything that is due up to and at `time`, one deadline after another, so that the verdicts of a long gap
    /// are emitted instead of accumulating, and those before a deadline that fails are not lost. `event` is the row that
    /// waits for it.
    fn run_clock(
        &mut self,
        time: Time,
        event: Option<usize>,
        out: &mut dyn VerdictSink,
    ) -> Result<(), EngineError> {
        while !self.clock.is_idle() && self.timeline.evaluated < time {
            let next = self.clock.next_after(self.timeline.since_start(self.timeline.evaluated));
            let next = next.map_or(time, |nanos| self.timeline.at(nanos)).min(time);
            let since_start = self.timeline.since_start(next);
            let due = catch_panic(|| self.interpreter.accept_time(since_start)).map_err(|panic| {
                EngineError::Deadline { time: next, before: event, reason: explained(&panic) }
            })?;
            self.timeline.reach(next);
            self.write_due(due, out)?;
            out.check()?;
        }
        self.timeline.reach(time);
        Ok(())
    }

    /// Emits the verdicts of several deadlines.
    fn write_due(
        &mut self,
        due: Vec<(u64, Incremental)>,
        out: &mut dyn VerdictSink,
    ) -> Result<(), EngineError> {
        due.into_iter().try_for_each(|(nanos, changes)| self.write(self.timeline.at(nanos), changes, out))
    }

    /// Emits the verdicts of an instant, and keeps track of instances and their clocks.
    fn write(
        &mut self,
        time: Time,
        changes: Incremental,
        out: &mut dyn VerdictSink,
    ) -> Result<(), EngineError> {
        let since_start = self.timeline.since_start(time);
        for (index, mut changes) in changes {
            let stream = &mut self.streams[index];
            stream.sort_changes(&mut changes);
            for change in changes {
                match change {
                    Change::Spawn(parameters) => {
                        if let Some(spawn) = stream.spawned.get(&parameters) {
                            self.clock.spawn(index, *spawn, since_start);
                        }
                        if self.lifecycle.wants(Kind::Spawn, index) {
                            out.spawn(time, index, &instance(&parameters))?;
                        }
                    }
                    Change::Value(parameters, value) => {
                        let kind = if stream.is_trigger { Kind::Trigger } else { Kind::Value };
                        if self.lifecycle.wants(kind, index) {
                            let of = parameters.as_ref().map(|parameters| NumberedInstance {
                                number: stream.spawned.get(parameters).copied(),
                                label: instance(parameters),
                            });
                            stream.write_value(time, index, of.as_ref(), &value, out)?;
                        }
                    }
                    Change::Close(parameters) => {
                        if let Some(spawn) = stream.spawned.remove(&parameters) {
                            self.clock.close(index, spawn);
                        }
                        if self.lifecycle.wants(Kind::Close, index) {
                            out.close(time, index, &instance(&parameters))?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

impl Stream {
    /// Sorts the changes of an instant: spawns, values, closes, each in the order of spawn. Numbers new instances.
    fn sort_changes(&mut self, changes: &mut [Change]) {
        // At most one of the changes is a spawn: a stream spawns at most one instance at an instant.
        for change in changes.iter() {
            if let Change::Spawn(parameters) = change {
                self.spawned.insert(parameters.clone(), self.spawns);
                self.spawns += 1;
            }
        }
        let rank = |change: &Change| {
            let (kind, parameters) = match change {
                Change::Spawn(parameters) => (0, Some(parameters)),
                Change::Value(parameters, _) => (1, parameters.as_ref()),
                Change::Close(parameters) => (2, Some(parameters)),
            };
            (kind, parameters.and_then(|parameters| self.spawned.get(parameters)).copied())
        };
        changes.sort_by_cached_key(rank);
    }

    fn write_value(
        &self,
        time: Time,
        index: usize,
        instance: Option<&NumberedInstance>,
        value: &Value,
        out: &mut dyn VerdictSink,
    ) -> Result<(), EngineError> {
        if self.is_trigger {
            let message = value.to_string();
            let message = if message.is_empty() { &self.condition } else { &message };
            out.trigger(time, index, instance.map(|instance| instance.label.as_str()), message)?;
            return Ok(());
        }
        let instance = instance.map(|instance| instance as &dyn Instance);
        with_verdict_value(value, |value| {
            let (kind, stream, value) = (Kind::Value, index, Some(value));
            out.emit(&VerdictRef { time, kind, stream, instance, value, message: None, details: None })
        })?;
        Ok(())
    }
}

/// An instance, and its number in the order of spawn.
struct NumberedInstance {
    number: Option<u64>,
    label: String,
}

impl Instance for NumberedInstance {
    fn number(&self) -> Option<u64> {
        self.number
    }

    fn label(&self, text: &mut String) {
        text.push_str(&self.label);
    }
}

impl Engine for ReferenceEngine {
    fn streams(&self) -> &[String] {
        &self.names
    }

    fn prepare(&mut self, subscription: &Subscription) -> Result<(), EngineError> {
        self.lifecycle.prepare(subscription)
    }

    fn feed(&mut self, events: &EventBatch, out: &mut dyn VerdictSink) -> Result<(), EngineError> {
        self.lifecycle.begin()?;
        check_columns(events, &self.wanted)?;
        (0..events.len()).try_for_each(|index| self.event(events, index, out))?;
        self.lifecycle.succeed();
        Ok(())
    }

    fn advance(&mut self, time: Time, out: &mut dyn VerdictSink) -> Result<(), EngineError> {
        self.lifecycle.begin()?;
        self.run_clock(time, None, out)?;
        self.lifecycle.succeed();
        Ok(())
    }
}

/// The message of an interpreter's panic, as an error of the specification or the data where it is one.
fn explained(panic: &str) -> String {
    // Version 0.11 computes the index of a percentile as the number of values minus one.
    let reason = if panic.contains("subtract with overflow (window_aggregations.rs") {
        "the interpreter stopped working: it cannot take a percentile of a window without values"
    } else if panic.contains("overflow") {
        "a whole number overflows: it is too large, or an unsigned one would be negative"
    } else if panic.contains("divide by zero") || panic.contains("divisor of zero") {
        "a whole number is divided by zero"
    } else if panic.to_lowercase().contains("nan") {
        "the result is not a number, such as 0.0 / 0.0 or the root of -1.0"
    } else {
        return format!("the interpreter stopped working: {panic}");
    };
    reason.to_owned()
}
