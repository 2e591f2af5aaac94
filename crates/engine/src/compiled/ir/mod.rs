//! What compilation produces: plans, operations, steps, layouts. Imports nothing else of the compiled engine.

pub(crate) mod aggregate;
pub(crate) mod counter;
pub(crate) mod execution_plan;
pub(crate) mod fault;
pub(crate) mod fold;
pub(crate) mod layout;
pub(crate) mod op;
pub(crate) mod plan;
pub(crate) mod scalar;
pub(crate) mod step;
pub(crate) mod update_rule;
pub(crate) mod window;
