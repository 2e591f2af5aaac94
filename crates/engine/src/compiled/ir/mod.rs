//! What compilation produces: plans, operations, layouts. Imports nothing else of the compiled engine.

pub(crate) mod fault;
pub(crate) mod layout;
pub(crate) mod op;
pub(crate) mod plan;
pub(crate) mod scalar;
