//! The chain of hashes through rows of evidence: each row has the SHA-256 of itself and of the hash before it, so that no
//! row can be changed, removed or added without changing every later hash. A later hash that was published before shows it.

use std::fmt::Write;

use fairstream_core::Time;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{EvidenceRow, TrialRow};

/// How far a chain goes: the number of rows, and the hash of the last of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainHead {
    /// Number of rows.
    pub rows: u64,
    /// The hash of the last row, as 64 hexadecimal digits; empty before the first row.
    pub hash: String,
}

impl ChainHead {
    /// Adds a row, and returns its hash.
    pub(super) fn add(&mut self, time: Time, row: &EvidenceRow) -> &str {
        let mut hash = Sha256::new();
        hash.update(self.hash.as_bytes());
        let mut text = |text: &str| {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        };
        // Values that are left out are hashed like empty ones, which formats need not tell apart.
        let number = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
        match row {
            EvidenceRow::Rule { metric, rule } => {
                ["rule", metric, rule].into_iter().for_each(&mut text);
            }
            EvidenceRow::Group { metric, check, group, stratum } => {
                let check = check.to_string();
                ["group", metric, &check, group, stratum].into_iter().for_each(&mut text);
            }
            EvidenceRow::Left { metric, check } => {
                ["left", metric, &check.to_string()].into_iter().for_each(&mut text);
            }
            EvidenceRow::Trial(TrialRow {
                metric,
                check,
                ended,
                key,
                group,
                stratum,
                indicators,
                value,
                block,
                alarm,
            }) => {
                let (check, ended, value) =
                    (check.to_string(), ended.0.to_string(), value.to_bits().to_string());
                let (block, alarm) = (number(*block), number(*alarm));
                ["trial", metric, &check, &ended, key, group, stratum, indicators, &value, &block, &alarm]
                    .into_iter()
                    .for_each(&mut text);
            }
        }
        text(&time.0.to_string());
        self.rows += 1;
        self.hash.clear();
        for byte in hash.finalize() {
            // Writing to a string cannot fail.
            let _ = write!(self.hash, "{byte:02x}");
        }
        &self.hash
    }
}
