//! Evidence: a record of every counted trial and its part in each alarm, and the recomputation of alarms from it.
//!
//! `recorder` records trials when they are counted. `rows` is the format of the record, `chain` the hashes through it. `replay`, `recompute` and
//! `bettor` read it and recompute e-values, `family` which of them are alarms; they share no calculation with the judge. `narrative` explains the result in sentences,
//! `alarm_trials` finds the trials behind it, `state` is what the recorder remembers when the program ends.

mod alarm_trials;
mod bettor;
mod chain;
mod family;
mod narrative;
mod recompute;
mod recorder;
mod replay;
mod rows;
mod state;

use hmac::{Hmac, Mac};
use sha2::Sha256;

pub use alarm_trials::AlarmTrials;
pub use chain::ChainHead;
pub(crate) use recorder::{EvidenceRecorder, key_of};
pub use replay::{Replay, ReplayedAlarm, WrongEvidence};
pub use rows::{EvidenceReader, evidence_schema};
pub(crate) use state::{RecorderCopy, RecorderDocument};

use fairstream_core::{Cancelled, EventBatch, Time};

/// Receives evidence: rows of the [`evidence_schema`] in order of time.
pub type EvidenceSink = Box<dyn FnMut(EventBatch) -> Result<(), Cancelled> + Send>;

/// Replaces keys by pseudonyms: HMAC-SHA-256 with a secret, truncated to 128 bits. Equal keys have equal pseudonyms, so
/// trials stay distinct, and a trial can be found by its key if the secret is known.
#[derive(Clone)]
pub struct KeyHash(Hmac<Sha256>);

/// A secret is too short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a secret of {0} bytes can be guessed: it has to have 16 or more")]
pub struct ShortSecret(usize);

impl KeyHash {
    /// Uses this secret.
    ///
    /// # Errors
    /// The secret has fewer than 16 bytes.
    pub fn new(secret: &[u8]) -> Result<KeyHash, ShortSecret> {
        let short = ShortSecret(secret.len());
        if secret.len() < 16 {
            return Err(short);
        }
        Ok(KeyHash(Hmac::new_from_slice(secret).map_err(|_| short)?))
    }

    /// The pseudonym of a key.
    pub(crate) fn name(&self, key: &str) -> String {
        let mut hash = self.0.clone();
        hash.update(key.as_bytes());
        hash.finalize().into_bytes().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A row of evidence.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum EvidenceRow {
    /// The rule of a rate. It precedes all other rows of the rate.
    Rule { metric: String, rule: String },
    /// A group that is compared from now on, possibly before any of its trials is counted.
    Group { metric: String, check: u64, group: String, stratum: String },
    /// A check at which trials left the window, and none was counted.
    Left { metric: String, check: u64 },
    /// A trial that is counted.
    Trial(TrialRow),
}

/// A trial that is counted in one rate.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TrialRow {
    pub(crate) metric: String,
    pub(crate) check: u64,
    /// When it became final, which is no later than the check.
    pub(crate) ended: Time,
    pub(crate) key: String,
    pub(crate) group: String,
    pub(crate) stratum: String,
    /// Its indicators, as a JSON object.
    pub(crate) indicators: String,
    /// 1 or 0 for a share of trials, or the number of the trial for a mean.
    pub(crate) value: f64,
    pub(crate) block: Option<u64>,
    pub(crate) alarm: Option<u64>,
}
