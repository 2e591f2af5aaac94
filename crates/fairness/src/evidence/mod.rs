//! Evidence: every trial that was counted, with its part in every alarm; and every alarm recomputed from that alone.
//!
//! `recorder` takes trials down while they are counted, `rows` is what is written of them, `replay` reads it again and
//! with `recompute` shares no calculation with the judge, `narrative` puts what it finds into words.

mod narrative;
mod recompute;
mod recorder;
mod replay;
mod rows;

use hmac::{Hmac, Mac};
use sha2::Sha256;

pub(crate) use recorder::EvidenceRecorder;
pub use replay::{Replay, ReplayedAlarm, WrongEvidence};
pub use rows::{EvidenceReader, evidence_schema};

use fairstream_core::{Closed, EventBatch};

/// Where evidence goes: rows of the [`evidence_schema`], in order of time.
pub type EvidenceOutlet = Box<dyn FnMut(EventBatch) -> Result<(), Closed> + Send>;

/// Turns keys into names that say nothing to whoever does not have the secret: HMAC-SHA-256, cut to 128 bits. The same
/// key has the same name, so that trials can still be told apart, and found again by whoever has it.
#[derive(Clone)]
pub struct KeyHash(Hmac<Sha256>);

/// A secret is too short to be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a secret of {0} bytes can be guessed: it has to have 16 or more")]
pub struct ShortSecret(usize);

impl KeyHash {
    /// With this secret.
    ///
    /// # Errors
    /// It has less than 16 bytes.
    pub fn new(secret: &[u8]) -> Result<KeyHash, ShortSecret> {
        let short = ShortSecret(secret.len());
        if secret.len() < 16 {
            return Err(short);
        }
        Ok(KeyHash(Hmac::new_from_slice(secret).map_err(|_| short)?))
    }

    fn name(&self, key: &str) -> String {
        let mut hash = self.0.clone();
        hash.update(key.as_bytes());
        hash.finalize().into_bytes().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A row of evidence.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum EvidenceRow {
    /// How a rate is judged: before anything else of it.
    Rule { metric: String, rule: String },
    /// A group that is compared from now on, though perhaps nobody of it has been counted.
    Group { metric: String, check: u64, group: String, stratum: String },
    /// A trial that is counted.
    Trial(TrialRow),
}

/// A trial that is counted in one rate.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TrialRow {
    pub(crate) metric: String,
    pub(crate) check: u64,
    pub(crate) key: String,
    pub(crate) group: String,
    pub(crate) stratum: String,
    /// Its indicators, as a JSON object.
    pub(crate) indicators: String,
    /// 1 or 0, or a number.
    pub(crate) value: f64,
    pub(crate) block: Option<u64>,
    pub(crate) alarm: Option<u64>,
}
