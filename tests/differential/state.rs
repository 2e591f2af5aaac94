//! State changes nothing: an engine that is resumed from the state of another one, before any call, gives the verdicts that
//! the other one would have given. Neither machine code nor the subscription is part of the state.

use std::sync::Mutex;

use fairstream_core::{
    Cancelled, Engine, EngineError, EventBatch, MemoryState, OnChange, Selection, Subscription, Time,
    VerdictRef, VerdictSink,
};
use fairstream_engine::Specification;

use super::{CaseCounts, cut_down, number, search};
use crate::support::{BuildFor, interpreted, through_bytes, warming_up};

/// Takes the place of its engine before every call.
struct Renewed {
    engine: Box<dyn Engine>,
    spec: Specification,
    subscription: Option<Subscription>,
    renewals: usize,
}

fn renewed(spec: &Specification, start: Time) -> Result<Box<dyn Engine>, EngineError> {
    let (engine, spec) = (warming_up(spec, start)?, spec.clone());
    Ok(Box::new(Renewed { engine, spec, subscription: None, renewals: 0 }))
}

/// The state of an engine, as it comes back from a file.
fn state_of(engine: &dyn Engine) -> MemoryState {
    through_bytes(&MemoryState::of(engine.capture().unwrap()).unwrap())
}

impl Renewed {
    fn renew(&mut self) -> Result<(), EngineError> {
        self.renewals += 1;
        // Machine code and the interpreter take turns. The start of the clock is that of the state.
        let build = if self.renewals.is_multiple_of(3) { interpreted } else { warming_up };
        let mut engine = build(&self.spec, Time(77))?;
        let state = state_of(&*self.engine);
        // Before an engine is prepared, or after it: both must do.
        let subscription = self.subscription.as_ref().unwrap();
        if self.renewals.is_multiple_of(2) {
            engine.resume(&state, OnChange::Refuse).unwrap();
            engine.prepare(subscription)?;
        } else {
            engine.prepare(subscription)?;
            engine.resume(&state, OnChange::CarryOver).unwrap();
        }
        assert_eq!(engine.changes(&state), Ok(Vec::new()));
        // What is read and written again is the same.
        let again = state_of(&*engine);
        assert_eq!((again.documents, again.tables), (state.documents, state.tables));
        self.engine = engine;
        Ok(())
    }
}

impl Engine for Renewed {
    fn streams(&self) -> &[String] {
        self.engine.streams()
    }

    fn prepare(&mut self, subscription: &Subscription) -> Result<(), EngineError> {
        self.subscription = Some(subscription.clone());
        self.engine.prepare(subscription)
    }

    fn feed(&mut self, events: &EventBatch, out: &mut dyn VerdictSink) -> Result<(), EngineError> {
        self.renew()?;
        self.engine.feed(events, out)
    }

    fn advance(&mut self, time: Time, out: &mut dyn VerdictSink) -> Result<(), EngineError> {
        self.renew()?;
        self.engine.advance(time, out)
    }
}

/// Evaluates every call by an engine that is resumed from the state of another one, which has the other subscription.
struct Resubscribed {
    other: Box<dyn Engine>,
    spec: Specification,
    subscription: Option<Subscription>,
}

struct Discard;

impl VerdictSink for Discard {
    fn emit(&mut self, _: &VerdictRef<'_>) -> Result<(), Cancelled> {
        Ok(())
    }
}

fn resubscribed(spec: &Specification, start: Time) -> Result<Box<dyn Engine>, EngineError> {
    Ok(Box::new(Resubscribed { other: warming_up(spec, start)?, spec: spec.clone(), subscription: None }))
}

impl Resubscribed {
    fn resumed(&self) -> Result<Box<dyn Engine>, EngineError> {
        let mut engine = warming_up(&self.spec, Time(0))?;
        engine.prepare(self.subscription.as_ref().unwrap())?;
        engine.resume(&state_of(&*self.other), OnChange::Refuse).unwrap();
        Ok(engine)
    }
}

impl Engine for Resubscribed {
    fn streams(&self) -> &[String] {
        self.other.streams()
    }

    fn prepare(&mut self, subscription: &Subscription) -> Result<(), EngineError> {
        let other = match subscription.selection() {
            Selection::Changes => Selection::Triggers,
            Selection::Triggers | Selection::Alarms => Selection::Changes,
        };
        self.subscription = Some(subscription.clone());
        self.other.prepare(&Subscription::new(other))
    }

    fn feed(&mut self, events: &EventBatch, out: &mut dyn VerdictSink) -> Result<(), EngineError> {
        self.resumed()?.feed(events, out)?;
        self.other.feed(events, &mut Discard)
    }

    fn advance(&mut self, time: Time, out: &mut dyn VerdictSink) -> Result<(), EngineError> {
        self.resumed()?.advance(time, out)?;
        self.other.advance(time, &mut Discard)
    }
}

fn must_change_nothing(engine: BuildFor) {
    let cases = number("FAIRSTREAM_FUZZ_CASES").map_or(100, |cases| cases as usize);
    let seed = number("FAIRSTREAM_FUZZ_SEED").unwrap_or(2);
    let counts = Mutex::new(CaseCounts::default());
    let found = search(seed, cases, engine, &counts);
    if let Some((number, case, difference)) = found {
        let case = cut_down(case, engine);
        panic!("case {number} of seed {seed}: {difference}\n{}\n{}", case.spec(), case.trace.text());
    }
    counts.into_inner().unwrap().require_a_reference();
}

#[test]
fn state_changes_nothing() {
    must_change_nothing(renewed);
}

#[test]
fn state_does_not_depend_on_the_subscription() {
    must_change_nothing(resubscribed);
}
