//! Engines that evaluate RTLola specifications. Does no input or output.
//!
//! [`CompiledEngine`] is the one to use; [`ReferenceEngine`] is the RTLola interpreter behind checks, and
//! [`VerifyingEngine`] compares two engines verdict by verdict.
//!
//! ```
//! use fairstream_core::Time;
//! use fairstream_engine::{CompiledEngine, Specification};
//!
//! let spec = Specification::parse("limit.lola", "input a : Int64\ntrigger a > 5 \"too high\"")?;
//! assert_eq!(spec.wanted()[0].name, "a");
//! let engine = CompiledEngine::new(&spec, Time(0)).unwrap();
//! assert_eq!(engine.explain()[0].stream, "trigger_0");
//!
//! let error = Specification::parse("limit.lola", "trigger a > 5").unwrap_err();
//! assert!(error.render(false).contains("limit.lola:1:9"));
//! # Ok::<(), fairstream_engine::SpecError>(())
//! ```

mod clock;
mod compiled;
mod definition;
mod lifecycle;
mod limits;
mod reference;
mod specification;
mod timeline;
mod value;
mod verify;

pub use compiled::{CompiledEngine, Explanation, mapped_bytes};
pub use reference::ReferenceEngine;
pub use specification::{Outline, Role, SpecError, Specification};
pub use verify::{VerifyingEngine, first_difference};
