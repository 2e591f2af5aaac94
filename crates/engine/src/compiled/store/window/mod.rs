//! Windows over the values of a stream.

pub(crate) mod bucketed;
pub(crate) mod last_decisive;
