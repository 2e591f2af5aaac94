//! Machine code for what is done at an event.
//!
//! An event with certain inputs leads to the same steps each time, on words whose places are known. Once such
//! events have come often enough, their steps become a [`Reaction`]: [`reaction`] writes the steps, [`program`] the
//! expressions in them, and [`memory`] lets them be run. What is rare or long is a call back into Rust ([`calls`]).
//!
//! A reaction does what [`Evaluator::step`](super::instant::Evaluator::step) does with the same steps, and must stay
//! so: differential tests run both. It reads and writes three kinds of memory, all through the [`Context`] that
//! it is given: the frame, the slots of instances, and what the state of a stream says about who must be evaluated.
//! It relies on this:
//!
//! - Places in the frame and in a slot come from the plan, slots from the tables of instances, which are never wrong.
//! - Slots move when an instance is spawned and at no other time: every call that may spawn finds them anew.
//! - A reaction is dropped when what it was written for is no longer so: who is told, and of what.

mod calls;
mod memory;
mod program;
mod reaction;

use super::instant::Evaluator;
use super::state::StreamState;
pub(super) use reaction::Reaction;

/// After how many events with the same inputs machine code is worth its price, which is about a millisecond.
pub(super) const OFTEN: u32 = 1000;

/// What a reaction is given.
#[repr(C)]
struct Context {
    evaluator: *mut Evaluator,
    frame: *mut u64,
    streams: *mut StreamState,
    /// For each family where its slots are.
    slots: *const usize,
}

impl Evaluator {
    /// Finds out where the slots of instances are now.
    fn find_slots(&mut self) {
        let Evaluator { slots, state, .. } = self;
        slots.clear();
        slots.extend(state.families.iter_mut().map(|family| family.instances.address()));
    }
}
