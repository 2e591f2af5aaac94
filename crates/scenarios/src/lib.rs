//! Scenarios to try fairness files on: three that are generated from a seed, and COMPAS from its file. All are
//! sources of events, so that an engine can be fed without a file in between.
//!
//! Streaming: memory does not grow with the number of people, only with the number who wait for a decision.
//! (COMPAS is sorted by time, so it is held in memory as a whole.) The same setup gives the same events on every
//! machine, for any size of batches; see `random.rs` for how.
//!
//! ```
//! use fairstream_core::{Source, SourceRequest};
//! use fairstream_scenarios::{Groups, Hiring};
//!
//! let unfair = Hiring { applicants: 3, accept: Groups::new([("M", 1.0), ("F", 0.0)]), ..Hiring::default() };
//! let mut source = unfair.source(&SourceRequest::default())?;
//! let events = source.next_batch()?.map_or(0, |batch| batch.len());
//! assert!((3..=6).contains(&events), "three applications, and an acceptance for each man");
//! # Ok::<(), fairstream_core::SourceError>(())
//! ```

mod admissions;
mod compas;
mod course;
mod groups;
mod hiring;
mod random;
mod scenario;
mod seminar;

pub use admissions::{Admissions, BERKELEY_1973, Department};
pub use compas::{Compas, LeftOut};
pub use groups::Groups;
pub use hiring::Hiring;
pub use random::Random;
pub use scenario::{Begun, Scenario, scenarios};
pub use seminar::{Algorithm, Seminar};
