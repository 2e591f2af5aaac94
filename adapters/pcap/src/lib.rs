//! Network packets as events: each packet is a row, and the fields of its headers are the columns. Capture files
//! are read without any system library; live capture needs libpcap, and the feature `live-capture`.
//!
//! Never guesses: a field that a packet does not have, or that was not captured, has no value.

mod capture;
mod dissect;
mod field;
mod live;
mod network;
mod rows;
mod source;

pub use live::LiveSources;
pub use source::PcapSources;
