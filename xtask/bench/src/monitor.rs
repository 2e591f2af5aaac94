//! One interface for all systems that are compared: engines, hand-written loops and peers.

use fairstream_core::{
    Cancelled, Engine, EngineError, EventBatch, Instance, Selection, Subscription, Time, VerdictRef,
    VerdictSink,
};
use fairstream_engine::{CompiledEngine, ReferenceEngine, Specification};

use crate::hand::{FastMap, HandLoop};
use crate::triggers::{Triggers, instance_hash};

/// Turns events into triggers.
pub trait Monitor {
    fn feed(&mut self, events: &EventBatch) -> Result<(), EngineError>;

    fn advance(&mut self, time: Time) -> Result<(), EngineError>;

    /// The triggers that have fired so far. Not part of the measured time.
    fn triggers(&mut self) -> anyhow::Result<Triggers>;
}

impl Monitor for Box<dyn HandLoop> {
    fn feed(&mut self, events: &EventBatch) -> Result<(), EngineError> {
        HandLoop::feed(self.as_mut(), events);
        Ok(())
    }

    fn advance(&mut self, time: Time) -> Result<(), EngineError> {
        HandLoop::advance(self.as_mut(), time);
        Ok(())
    }

    fn triggers(&mut self) -> anyhow::Result<Triggers> {
        Ok(HandLoop::triggers(self.as_ref()))
    }
}

/// An engine whose triggers are added up one by one, as the hand-written loops do: neither writes them.
pub struct Monitored {
    engine: Box<dyn Engine>,
    sum: TriggerSum,
}

impl Monitored {
    pub fn compiled(spec: &Specification, start: Time) -> Result<Monitored, EngineError> {
        Monitored::new(Box::new(CompiledEngine::new(spec, start)?))
    }

    pub fn reference(spec: &Specification, start: Time) -> Result<Monitored, EngineError> {
        Monitored::new(Box::new(ReferenceEngine::new(spec, start)?))
    }

    /// An engine that is ready for the first event.
    fn new(mut engine: Box<dyn Engine>) -> Result<Monitored, EngineError> {
        let number = |name: &String| name.strip_prefix("trigger_").and_then(|number| number.parse().ok());
        let sum = TriggerSum {
            numbers: engine.streams().iter().map(number).collect(),
            labels: FastMap::default(),
            label: String::new(),
            triggers: Triggers::default(),
        };
        engine.prepare(&Subscription::new(Selection::Triggers))?;
        Ok(Monitored { engine, sum })
    }
}

impl Monitor for Monitored {
    fn feed(&mut self, events: &EventBatch) -> Result<(), EngineError> {
        self.engine.feed(events, &mut self.sum)
    }

    fn advance(&mut self, time: Time) -> Result<(), EngineError> {
        self.engine.advance(time, &mut self.sum)
    }

    fn triggers(&mut self) -> anyhow::Result<Triggers> {
        Ok(self.sum.triggers)
    }
}

/// Adds up triggers.
struct TriggerSum {
    /// Number of the trigger of each stream, if it is a trigger.
    numbers: Vec<Option<u64>>,
    /// Hash of each instance, by stream and instance number.
    labels: FastMap<(usize, u64), u64>,
    label: String,
    triggers: Triggers,
}

impl TriggerSum {
    fn instance(&mut self, stream: usize, instance: &dyn Instance) -> u64 {
        let known = instance.number().map(|number| (stream, number));
        if let Some(label) = known.and_then(|known| self.labels.get(&known)) {
            return *label;
        }
        self.label.clear();
        instance.label(&mut self.label);
        let label = instance_hash(&self.label);
        self.labels.extend(known.map(|known| (known, label)));
        label
    }
}

impl VerdictSink for TriggerSum {
    fn emit(&mut self, verdict: &VerdictRef<'_>) -> Result<(), Cancelled> {
        let instance = verdict.instance.map_or(0, |instance| self.instance(verdict.stream, instance));
        if let Some(number) = self.numbers[verdict.stream] {
            self.triggers.fired(verdict.time, number, instance);
        }
        Ok(())
    }
}
