//! Snapshots of the engine: a header that identifies the plan, and the store. Never loaded in part: a snapshot that fails
//! a check leaves the engine as it was. If the plan cannot be specialised for a restored store, the engine takes no
//! events until another snapshot is restored.

use fairstream_core::{SnapshotError, Time};
use serde::{Deserialize, Serialize};

use crate::compiled::CompiledEngine;
use crate::compiled::ir::plan::Plan;
use crate::compiled::store::state::Store;
use crate::timeline::Timeline;

const MAGIC: &[u8; 8] = b"fairsnap";
/// The version of the format, raised with every change of it.
pub(super) const VERSION: u32 = 9;
/// Bytes of the header: magic number, version, fingerprint of the plan, checksum of the payload.
const HEADER: usize = MAGIC.len() + 4 + 8 + 8;

/// The payload, as it is written. Times are in nanoseconds since the epoch.
#[derive(Serialize)]
struct Saved<'a> {
    start: i64,
    evaluated: i64,
    state: &'a Store,
}

/// The payload, as it is read.
#[derive(Deserialize)]
struct Loaded {
    start: i64,
    evaluated: i64,
    state: Store,
}

impl CompiledEngine {
    pub(super) fn save(&self) -> Result<Vec<u8>, SnapshotError> {
        let saved = Saved {
            start: self.timeline.start.0,
            evaluated: self.timeline.evaluated.0,
            state: self.executor.store(),
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
        state.restore(self.executor.plan()).map_err(|reason| SnapshotError::Damaged(reason.to_owned()))?;
        let timeline = Timeline { start: Time(start), evaluated: Time(evaluated) };
        if evaluated < start.saturating_sub(1) || state.now > timeline.since_start(timeline.evaluated) + 1 {
            return Err(SnapshotError::Damaged("its clock contradicts itself".to_owned()));
        }
        self.timeline = timeline;
        self.executor.resume(state);
        Ok(())
    }
}

/// Identifies a specification by its plan: two specifications that differ only in comments have the same fingerprint. It
/// is a hash of the plan's debug text, so it also changes with the definition of plans.
pub(super) fn fingerprint(plan: &Plan) -> u64 {
    checksum(format!("{plan:?}").as_bytes())
}

/// Recomputes the checksum of a snapshot whose payload was changed, so that fuzzing gets past the check.
#[doc(hidden)]
pub fn reseal_snapshot(snapshot: &mut [u8]) {
    if let Some((header, payload)) = snapshot.split_at_mut_checked(HEADER) {
        header[HEADER - 8..].copy_from_slice(&checksum(payload).to_le_bytes());
    }
}

/// FNV-1a with 64 bits, which gives the same on every machine.
fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
