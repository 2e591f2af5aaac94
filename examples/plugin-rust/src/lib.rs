//! A plugin with a source for a custom log format, and a sink that counts verdicts.

mod log;
mod tally;

pub use log::LogSources;
pub use tally::TallySinks;

fairstream_plugin_abi::export_plugin!(source = LogSources, sink = TallySinks);
