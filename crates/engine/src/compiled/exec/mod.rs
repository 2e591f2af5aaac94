//! Evaluates a plan: one instant at a time. The only code that changes the store.

pub(crate) mod bytecode;
pub(crate) mod counters;
pub(crate) mod emit;
pub(crate) mod format;
pub(crate) mod input_batch;
pub(crate) mod instant;
pub(crate) mod lifecycle;
pub(crate) mod precompile;
pub(crate) mod prefetch;
pub(crate) mod propagate;
pub(crate) mod rare_ops;
pub(crate) mod scheduler;
pub(crate) mod string_gc;
pub(crate) mod update;
pub(crate) mod update_rule;
