//! One interface for all systems that are compared: engines, hand-written loops and peers.

use std::cell::Cell;
use std::rc::Rc;

use fairstream_core::{
    Closed, Engine, EngineError, EventBatch, Hearer, Instance, Said, Selection, Time, Verdicts,
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

/// An engine whose triggers are consumed one by one and added to a checksum, as in the hand-written loops: neither
/// writes them.
pub struct Monitored {
    engine: Box<dyn Engine>,
    verdicts: Verdicts,
    triggers: Rc<Cell<Triggers>>,
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
        let triggers = Rc::new(Cell::new(Triggers::default()));
        let listener = Listener {
            numbers: engine.streams().iter().map(number).collect(),
            labels: FastMap::default(),
            label: String::new(),
            triggers: Rc::clone(&triggers),
        };
        let mut verdicts = Verdicts::heard_by(Selection::Triggers, listener);
        engine.prepare(&mut verdicts)?;
        Ok(Monitored { engine, verdicts, triggers })
    }
}

impl Monitor for Monitored {
    fn feed(&mut self, events: &EventBatch) -> Result<(), EngineError> {
        self.engine.feed(events, &mut self.verdicts)
    }

    fn advance(&mut self, time: Time) -> Result<(), EngineError> {
        self.engine.advance(time, &mut self.verdicts)
    }

    fn triggers(&mut self) -> anyhow::Result<Triggers> {
        Ok(self.triggers.get())
    }
}

/// Adds triggers to the checksum.
struct Listener {
    /// Number of the trigger of each stream, if it is a trigger.
    numbers: Vec<Option<u64>>,
    /// Hash of each instance, by stream and instance number.
    labels: FastMap<(usize, u64), u64>,
    label: String,
    triggers: Rc<Cell<Triggers>>,
}

impl Listener {
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

impl Hearer for Listener {
    fn hear(&mut self, said: &Said<'_>) -> Result<(), Closed> {
        let instance = said.instance.map_or(0, |instance| self.instance(said.stream, instance));
        if let Some(number) = self.numbers[said.stream] {
            let mut triggers = self.triggers.get();
            triggers.fired(said.time, number, instance);
            self.triggers.set(triggers);
        }
        Ok(())
    }
}
