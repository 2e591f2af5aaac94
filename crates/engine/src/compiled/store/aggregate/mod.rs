//! Aggregates over values that change.

pub(crate) mod accumulator;
pub(crate) mod exact_sum;
pub(crate) mod extremum_tree;
pub(crate) mod fold;
pub(crate) mod group;
