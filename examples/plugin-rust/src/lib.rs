//! A plugin: reads a log that nobody else can read, and counts verdicts.

mod log;
mod tally;

pub use log::LogSources;
pub use tally::TallySinks;

fairstream_plugin_abi::export_plugin!(source = LogSources, sink = TallySinks);
