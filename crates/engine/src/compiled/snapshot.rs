//! The whole state as bytes: a header that says what it is of, and the state itself.

use fairstream_core::{SnapshotError, Time};
use serde::{Deserialize, Serialize};

use crate::compiled::CompiledEngine;
use crate::compiled::ir::plan::Plan;
use crate::compiled::store::state::State;
use crate::timeline::Timeline;

const MAGIC: &[u8; 8] = b"fairsnap";
/// Raised with every change of what the state looks like.
pub(super) const VERSION: u32 = 8;
const HEADER: usize = MAGIC.len() + 4 + 8 + 8;

#[derive(Serialize)]
struct Saved<'a> {
    start: i64,
    evaluated: i64,
    state: &'a State,
}

#[derive(Deserialize)]
struct Loaded {
    start: i64,
    evaluated: i64,
    state: State,
}

impl CompiledEngine {
    pub(super) fn save(&self) -> Result<Vec<u8>, SnapshotError> {
        let saved = Saved {
            start: self.timeline.start.0,
            evaluated: self.timeline.evaluated.0,
            state: &self.evaluator.state,
        };
        let payload =
            postcard::to_stdvec(&saved).map_err(|error| SnapshotError::Damaged(error.to_string()))?;
        let mut bytes = Vec::with_capacity(HEADER + payload.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.fingerprint.to_le_bytes());
        bytes.extend_from_slice(&checksum(&payload).to_le_bytes());
        bytes.extend_from_slice(&payload);
        Ok(bytes)
    }

    pub(super) fn load(&mut self, snapshot: &[u8]) -> Result<(), SnapshotError> {
        let rest = snapshot.strip_prefix(MAGIC).ok_or(SnapshotError::NotASnapshot)?;
        let short = || SnapshotError::Damaged("its end is missing".to_owned());
        let (version, rest) = rest.split_first_chunk().ok_or_else(short)?;
        let found = u32::from_le_bytes(*version);
        if found != VERSION {
            return Err(SnapshotError::Version { found, known: VERSION });
        }
        let (fingerprint, rest) = rest.split_first_chunk().ok_or_else(short)?;
        if u64::from_le_bytes(*fingerprint) != self.fingerprint {
            return Err(SnapshotError::OtherSpecification);
        }
        let (sum, payload) = rest.split_first_chunk().ok_or_else(short)?;
        if u64::from_le_bytes(*sum) != checksum(payload) {
            return Err(SnapshotError::Damaged("its bytes are not those that were written".to_owned()));
        }
        let Loaded { start, evaluated, mut state } =
            postcard::from_bytes(payload).map_err(|error| SnapshotError::Damaged(error.to_string()))?;
        state.index();
        self.timeline = Timeline { start: Time(start), evaluated: Time(evaluated) };
        self.evaluator.resume(state);
        Ok(())
    }
}

/// Tells specifications apart by what becomes of them: two that differ in their comments only are
/// the same. It is of the text that a plan prints, so another shape of the plan is another one.
pub(super) fn fingerprint(plan: &Plan) -> u64 {
    checksum(format!("{plan:?}").as_bytes())
}

/// FNV-1a, which is the same on every machine.
fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
