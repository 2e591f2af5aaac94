//! Who is compared, behind one face: engines, loops written by hand, and whoever else.

use std::cell::RefCell;
use std::rc::Rc;

use fairstream_core::{Engine, EngineError, EventBatch, Selection, Time, VerdictBatch, Verdicts};
use fairstream_engine::{CompiledEngine, ReferenceEngine, Specification};

use crate::hand::HandLoop;
use crate::triggers::Triggers;

/// Turns events into triggers.
pub trait Monitor {
    fn feed(&mut self, events: &EventBatch) -> Result<(), EngineError>;

    fn advance(&mut self, time: Time) -> Result<(), EngineError>;

    /// What has fired so far. Not part of the measured time.
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

/// An engine and its verdicts, in batches as the pipeline hands them to sinks.
pub struct Monitored {
    engine: Box<dyn Engine>,
    verdicts: Verdicts,
    written: Rc<RefCell<Vec<VerdictBatch>>>,
    triggers: Triggers,
}

impl Monitored {
    pub fn compiled(spec: &Specification, start: Time) -> Result<Monitored, EngineError> {
        Monitored::new(Box::new(CompiledEngine::new(spec, start)?))
    }

    pub fn reference(spec: &Specification, start: Time) -> Result<Monitored, EngineError> {
        Monitored::new(Box::new(ReferenceEngine::new(spec, start)?))
    }

    /// Ready for the first event.
    fn new(mut engine: Box<dyn Engine>) -> Result<Monitored, EngineError> {
        let written = Rc::new(RefCell::new(Vec::new()));
        let sink = Rc::clone(&written);
        let mut verdicts = Verdicts::new(engine.streams(), Selection::Triggers, 8192, move |batch| {
            sink.borrow_mut().push(batch);
            Ok(())
        });
        engine.prepare(&mut verdicts)?;
        Ok(Monitored { engine, verdicts, written, triggers: Triggers::default() })
    }
}

impl Monitor for Monitored {
    fn feed(&mut self, events: &EventBatch) -> Result<(), EngineError> {
        self.engine.feed(events, &mut self.verdicts)?;
        Ok(self.verdicts.flush()?)
    }

    fn advance(&mut self, time: Time) -> Result<(), EngineError> {
        self.engine.advance(time, &mut self.verdicts)?;
        Ok(self.verdicts.flush()?)
    }

    fn triggers(&mut self) -> anyhow::Result<Triggers> {
        let written = self.written.take();
        for verdict in written.iter().flat_map(VerdictBatch::iter) {
            self.triggers.add(&verdict)?;
        }
        Ok(self.triggers)
    }
}
