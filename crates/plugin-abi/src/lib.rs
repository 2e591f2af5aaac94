//! Plugins: sources and sinks in shared libraries, behind the C ABI of `include/fairstream_plugin.h`.
//!
//! Authors in other languages need only the header. Authors in Rust implement a
//! [`Source`](fairstream_core::Source) or a [`Sink`](fairstream_core::Sink) as if it were built in, and
//! [export](export_plugin) it with one line. Independent of the host.

pub mod abi;
mod export;
mod guard;
mod sink;
mod source;

#[doc(hidden)]
pub use arrow;

pub use export::{describe, offer};
pub use sink::open_sink;
pub use source::{ROW_COLUMNS, open_source};
