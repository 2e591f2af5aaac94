//! Specifications: whatever the text, it is accepted or refused with a reason, and what is accepted can be built.

use fairstream_core::Time;
use fairstream_engine::{CompiledEngine, Specification};

/// The text of a specification. The frontend that parses it is third-party code behind limits.
pub(crate) fn specification(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Specification::parse("x.lola", text) {
        Err(error) => {
            assert!(!error.to_string().is_empty(), "a reason");
            for (place, _) in error.places() {
                assert!(place.start <= place.end && place.end <= text.len(), "a place in the text");
            }
        }
        Ok(spec) => {
            let _ = spec.outline();
            if let Err(error) = CompiledEngine::new(&spec, Time(0)) {
                assert!(!error.to_string().is_empty(), "a reason");
            }
        }
    }
}
