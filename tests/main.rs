//! End-to-end tests through the public interfaces.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod browser;
#[cfg(unix)]
mod checkpoints;
mod cli;
mod clocks;
mod conformance;
mod differential;
#[cfg(unix)]
mod documents;
mod evidence;
mod fairness;
mod faults;
mod foreign;
mod formats;
mod generate;
mod golden_state;
#[cfg(unix)]
mod hostile;
mod inputs;
#[cfg(unix)]
mod live;
#[cfg(unix)]
mod plugins;
#[cfg(unix)]
mod process;
mod properties;
mod report;
mod specs;
mod structure;
mod summary;
mod support;
mod sweep;
mod verdicts;
