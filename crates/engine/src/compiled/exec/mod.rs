//! Evaluates a plan, one instant at a time. The only code that changes the store. Knows machine code by [`codegen`] alone.

pub(crate) mod bytecode;
pub(crate) mod changes;
pub(crate) mod codegen;
mod counters;
pub(crate) mod cx;
pub(crate) mod dispatch;
mod emit;
pub(crate) mod error;
pub(crate) mod executor;
mod format;
pub(crate) mod grouping;
pub(crate) mod input_batch;
mod instant;
mod lifecycle;
mod precompile;
mod prefetch;
mod propagate;
mod rare_ops;
pub(crate) mod scheduler;
mod string_gc;
mod update;
