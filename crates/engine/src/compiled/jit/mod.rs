//! Machine code for what is done at an event, a tick or a deadline.
//!
//! An event with certain inputs leads to the same steps each time, on words whose places are known, and so does a time at
//! which certain clocks strike. Of those that are likely, and of others once they have come often enough, the steps
//! become a [`Handler`]: [`handler`] writes the steps, [`evaluation`] what a new value leads to, [`ending`] what the end
//! of an instance does, [`clocks`] deadlines and ticks one after another, [`marks`] who must look again, [`lookup`] how
//! instances are found, [`slots`] how they come and go, [`timers`] how their clocks do, [`groups`] how tallies hear of
//! it, [`program`] the expressions, [`tick`] what they read from the clock, [`known`] what need not be read again or not
//! be written, [`range`] what need not be checked, and [`memory`] lets all that be run. What is rare or long is a call
//! back into Rust ([`calls`]).
//!
//! A reaction does what [`Evaluator::step`](super::instant::Evaluator::step) does with the same steps, and must stay
//! so: differential tests run both. All memory that it reads and writes it finds through the [`VmContext`] that it is
//! given ([`places`]): the frame, the inputs of the batch, the slots of instances, the groups of tallies, and what the state of a
//! stream says about who must be evaluated. It relies on this:
//!
//! - VmContextBuffer in the frame and in a slot come from the plan, slots from the tables of instances, which are never wrong.
//! - Slots and clocks move when an instance is spawned, groups when there is a new one, inputs with the next batch, and
//!   at no other time. Whoever does that says so in [`VmContextBuffer`], and things are found anew before machine code goes on.
//! - In a list of slots that it goes through, only who has had its turn is listed again meanwhile, in the place of one
//!   who has.
//! - A clock that has nothing to do sleeps. Whoever marks somebody at an event, who may be evaluated at its ticks, wakes
//!   it: machine code where it marks and after every call, Rust where it does an event itself or ends one.
//! - What a program puts into the frame for itself is read by that program alone, and by Rust only where a call says so.
//! - A reaction is dropped when what it was written for is no longer so: who is told, and of what.

mod closing;
mod code_memory;
mod deadline_loop;
mod dirty;
mod expr;
mod float_range;
mod grouping;
mod handler;
mod lookup;
mod runtime_calls;
mod spawning;
mod steps;
mod time_reads;
mod timers;
mod update;
mod value_cache;
mod vm_context;

pub(super) use handler::Jit;
