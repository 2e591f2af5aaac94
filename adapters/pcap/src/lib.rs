//! Network packets as events: each is a row, and the fields of its headers are the columns. Files of
//! captures are read without any system library; live capture needs libpcap, and the feature
//! `live-capture`.
//!
//! Never guesses: what a packet does not have, or what was not captured of it, is no value.

mod capture;
mod dissect;
mod field;
mod live;
mod network;
mod rows;
mod source;

pub use live::LiveSources;
pub use source::PcapSources;
