//! The trials that an alarm rests on, as rows of evidence.

use arrow::array::BooleanArray;
use arrow::compute::filter_record_batch;
use arrow::error::ArrowError;
use fairstream_core::{EventBatch, Position, Time};

use super::rows::EvidenceReader;
use super::{EvidenceRow, TrialRow, WrongEvidence};

/// The trials that an alarm rests on: those of its metric and stratum that had been counted when it was raised; of a
/// detector, only those of the blocks that made its evidence. Without one, those in the window, if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlarmTrials {
    pub(super) metric: String,
    pub(super) stratum: String,
    pub(super) last_check: u64,
    pub(super) first_block: Option<u64>,
    /// Trials that were counted up to this time had left the window.
    pub(super) left_until: Option<Time>,
}

impl AlarmTrials {
    /// The rows of a batch of evidence that are among these trials.
    ///
    /// # Errors
    /// They are not rows of evidence.
    pub fn among(&self, batch: &EventBatch) -> Result<EventBatch, WrongEvidence> {
        let unreadable = |error: ArrowError| WrongEvidence::Unreadable(error.to_string());
        let rows = EvidenceReader::rows(batch).map_err(WrongEvidence::Unreadable)?;
        let is_wanted: Vec<bool> = rows.iter().map(|read| self.includes(read.time, &read.row)).collect();
        let mask = BooleanArray::from(is_wanted.clone());
        let wanted = |values: &[i64]| -> Vec<i64> {
            values.iter().zip(&is_wanted).filter(|(_, wanted)| **wanted).map(|(value, _)| *value).collect()
        };
        let numbers = batch.row_numbers.iter().zip(&is_wanted).filter(|(_, wanted)| **wanted);
        let numbers: Vec<u64> = numbers.map(|(number, _)| *number).collect();
        let columns = filter_record_batch(&batch.rows, &mask).map_err(unreadable)?;
        Ok(EventBatch::new(columns, wanted(&batch.times), numbers, Position::default()))
    }

    fn includes(&self, time: Time, row: &EvidenceRow) -> bool {
        let EvidenceRow::Trial(TrialRow { metric, stratum, check, block, .. }) = row else { return false };
        let is_in_a_block = self.first_block.is_none_or(|first| block.is_some_and(|block| block >= first));
        let has_left = self.first_block.is_none() && self.left_until.is_some_and(|left| time <= left);
        !has_left
            && *metric == self.metric
            && *stratum == self.stratum
            && *check <= self.last_check
            && is_in_a_block
    }
}
