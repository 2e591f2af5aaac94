//! The test suite that every source and sink passes, with a few lines of test code each:
//!
//! ```ignore
//! #[test]
//! fn complies() {
//!     check_source(&SourceCase {
//!         factory: &MySources,
//!         good: request("good.data"),
//!         rows: 7,
//!         bad: Some(BadInput { request: request("bad.data"), row: 4, column: Some("score") }),
//!         missing: request("missing.data"),
//!         cut_off: None,
//!         live: None,
//!     });
//! }
//! ```
//!
//! It tests the contracts of [`Source`](crate::Source) and [`Sink`](crate::Sink), and panics with a message on a
//! violation.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test suite says no by panicking"
)]

mod sink;
mod source;

pub use sink::{SinkCase, check_sink, sample_verdicts};
pub use source::{BadInput, LiveInput, SourceCase, check_source};
