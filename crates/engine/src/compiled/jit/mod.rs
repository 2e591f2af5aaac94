//! Compiles the steps of frequent instants to machine code.
//!
//! Every event with the same inputs leads to the same steps on words at known offsets, and so does every time at which
//! the same timers are due. The steps of one such event shape or timer set become one function, a
//! [`Handler`](handler::Handler). Likely ones are compiled before the first event, others once they have come often
//! enough. A handler does exactly what interpreting its steps does; differential tests run both. What is rare or long
//! it leaves to a runtime call.
//!
//! The JIT never decides what a specification means, never emits a verdict, and never allocates or grows a data
//! structure in machine code: the runtime calls do.
//!
//! - [`handler`]: compiles a handler, and runs it.
//! - [`steps`], [`update`], [`closing`]: the steps of an instant, a new value and its consequences, the end of
//!   instances.
//! - [`deadline_loop`]: deadlines and ticks one after another.
//! - [`dirty`]: marks in dirty sets.
//! - [`lookup`], [`spawning`]: finding, spawning and freeing instances.
//! - [`timers`]: deadlines of spawned and of closed instances.
//! - [`grouping`]: grouped aggregates.
//! - [`expr`], [`time_reads`], [`float_range`]: the bytecode of expressions, reads of the clock, elimination of NaN
//!   checks.
//! - [`value_cache`]: load forwarding and dead-store elimination.
//! - [`vm_context`], [`runtime_calls`], [`code_memory`]: what machine code shares with the runtime, calls of the
//!   runtime, executable memory.
//!
//! Machine code relies on these invariants:
//!
//! - Frame slots and positions of words come from the plan, slots from the store. Machine code checks no bounds.
//! - Addresses of data structures are in the [`VmContext`](vm_context::VmContext), at the offsets of
//!   [`VmOffsets`](vm_context::VmOffsets). A runtime call after which
//!   [`Store::moves`](super::store::state::Store::moves) may differ refreshes them before it returns, and the emitter
//!   drops the cached ones.
//! - Runtime calls catch panics. Every call is followed by a check of `has_panicked`, upon which the handler returns
//!   with an error.
//! - While a dirty list is iterated in place, only slots that were visited already are pushed to the same dirty set.
//! - `idle_until` is never later than the next deadline or tick with work to do. Machine code lowers it where it marks
//!   something dirty that is evaluated at ticks, and where it pushes a deadline. At events it sets it to 0 after every
//!   runtime call, which may have marked anything; only calls that lower it themselves are exempt.
//! - Frame slots that a program uses as temporaries are read by that program alone. A runtime call reads only those
//!   that were flushed for it.
//! - All handlers are dropped when the plan changes, or the representation of a counter: the code has both built in.

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
