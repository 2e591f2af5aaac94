//! Reorder buffer: sorts the rows of one source by time, within an allowed lateness.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::Duration;

use arrow::error::ArrowError;

use super::merge::{OrderedRows, ROWS_AT_ONCE, gather};
use super::progress::SourceMark;
use crate::{EventBatch, Position, Time};

/// Rows wait until the watermark, the newest time minus the allowed lateness, has reached them. Rows of equal time keep
/// their order of arrival.
pub(super) struct ReorderBuffer {
    lateness: Duration,
    /// The newest time seen, and the row that has it.
    newest: Time,
    newest_row: u64,
    /// No further row is older than this, as the source has said.
    promised: Time,
    /// Min-heap of waiting rows: time and arrival number.
    waiting: BinaryHeap<Reverse<(i64, u64)>>,
    /// The batches with the waiting rows, in order of arrival.
    batches: VecDeque<HeldBatch>,
    arrived: u64,
    /// The time of the oldest waiting row, as it was sent last.
    told: Option<Time>,
    /// A batch without rows.
    empty: Option<EventBatch>,
    /// Number of rows that have left, of batches of which others wait or were not admitted.
    ahead: u64,
}

struct HeldBatch {
    events: EventBatch,
    first: u64,
    waiting: usize,
    /// Where the source was at the end of the batch; `None` if not all good rows of it were admitted.
    mark: Option<SourceMark>,
}

impl ReorderBuffer {
    pub(super) fn new(lateness: Duration) -> ReorderBuffer {
        ReorderBuffer {
            lateness,
            newest: Time(i64::MIN),
            newest_row: 0,
            promised: Time(i64::MIN),
            waiting: BinaryHeap::new(),
            batches: VecDeque::new(),
            arrived: 0,
            told: None,
            empty: None,
            ahead: 0,
        }
    }

    /// Continues behind rows of which this is the newest.
    pub(super) fn resume(&mut self, newest: Option<(Time, u64)>) {
        if let Some((time, row)) = newest {
            (self.newest, self.newest_row) = (time, row);
        }
    }

    /// The source has said that no further row is older than this.
    pub(super) fn promise(&mut self, time: Option<Time>) {
        self.promised = self.promised.max(time.unwrap_or(self.promised));
    }

    /// The clock of the machine is about to pass a time: rows up to it do not wait any longer.
    pub(super) fn pass(&mut self, time: Time) {
        if !self.lateness.is_zero() && time.0 > i64::MIN {
            self.promised = self.promised.max(Time(time.0.saturating_add(1)));
        }
    }

    /// The newest time seen and the row that has it, if there was any.
    pub(super) fn newest_row(&self) -> Option<(Time, u64)> {
        (self.newest.0 > i64::MIN).then_some((self.newest, self.newest_row))
    }

    /// Advances the watermark by the time of a row, in order of arrival. If the row is too late, returns the watermark
    /// as an error.
    pub(super) fn admit(&mut self, time: Time, row: u64) -> Result<(), Time> {
        let oldest = self.watermark();
        if time < oldest {
            return Err(oldest);
        }
        if time > self.newest {
            (self.newest, self.newest_row) = (time, row);
        }
        Ok(())
    }

    /// The newest time seen.
    pub(super) fn newest(&self) -> Time {
        self.newest
    }

    /// No row that is admitted from now on is older than this.
    pub(super) fn watermark(&self) -> Time {
        self.newest.saturating_sub(self.lateness).max(self.promised)
    }

    /// The reason for rejecting a late row. `place` names a row.
    pub(super) fn too_late(&self, time: Time, oldest: Time, place: impl Fn(u64) -> String) -> String {
        let (time, oldest) = (time.for_people(), oldest.for_people());
        let newest = place(self.newest_row);
        if self.lateness.is_zero() {
            format!(
                "its time {time} is before {oldest}, that of {newest}; if rows come late, allow for it with `--reorder 10m`, or have the \
                 input sorted first with `--sort`"
            )
        } else {
            format!("its time {time} is before {oldest}, later than `--reorder` allows after {newest}")
        }
    }

    /// Adds admitted rows, with where the source is behind them if they are all good rows of their batch.
    pub(super) fn push(&mut self, events: EventBatch, mark: Option<SourceMark>) {
        let first = self.arrived;
        let mut waiting = 0;
        if !self.lateness.is_zero() {
            waiting = events.len();
            self.empty = Some(EventBatch::new(events.rows.slice(0, 0), vec![], vec![], Position::default()));
            self.arrived += waiting as u64;
            let arrivals = events.times.iter().zip(first..);
            self.waiting.extend(arrivals.map(|(time, arrival)| Reverse((*time, arrival))));
        }
        self.batches.push_back(HeldBatch { waiting, first, events, mark });
    }

    /// The next rows at or before the watermark; with `all`, all waiting rows. `None` if there are no rows and no new
    /// position.
    pub(super) fn ready(&mut self, all: bool) -> Result<Option<OrderedRows>, ArrowError> {
        if self.lateness.is_zero() {
            let held = self.batches.pop_front();
            return Ok(held.map(|HeldBatch { events, mark, .. }| {
                if mark.is_none() {
                    self.ahead += events.len() as u64;
                }
                OrderedRows {
                    through: mark,
                    ahead: self.ahead,
                    watermark: self.watermark(),
                    waiting: None,
                    events,
                }
            }));
        }
        let through = if all { Time(i64::MAX) } else { self.watermark() };
        let mut touched = HashMap::new();
        let mut batches = Vec::new();
        let mut indices = Vec::new();
        while indices.len() < ROWS_AT_ONCE
            && let Some(Reverse((time, arrival))) = self.waiting.peek().copied()
            && time <= through.0
        {
            self.waiting.pop();
            let index = self.batches.partition_point(|held| held.first <= arrival) - 1;
            let held = &mut self.batches[index];
            held.waiting -= 1;
            let row = usize::try_from(arrival - held.first).unwrap_or_default();
            let batch = *touched.entry(index).or_insert_with(|| {
                batches.push(held.events.clone());
                batches.len() - 1
            });
            indices.push((batch, row));
        }
        self.ahead += indices.len() as u64;
        let (empty, through) = self.release_finished();
        let waiting = self.waiting.peek().map(|Reverse((time, _))| Time(*time));
        let has_changed = std::mem::replace(&mut self.told, waiting) != waiting;
        let empty = empty.or_else(|| self.empty.clone().filter(|_| has_changed));
        let events = if indices.is_empty() { empty } else { Some(gather(&batches, &indices)?) };
        // Rows that are left for the next call may be older.
        let (ahead, watermark) = (self.ahead, self.watermark().min(waiting.unwrap_or(Time(i64::MAX))));
        Ok(events.map(|events| OrderedRows { events, through, ahead, watermark, waiting }))
    }

    /// Releases the batches at the front without waiting rows. Returns where the source was at the end of the last of
    /// them, and an empty batch to carry it.
    fn release_finished(&mut self) -> (Option<EventBatch>, Option<SourceMark>) {
        let (mut empty, mut last) = (None, None);
        while self.batches.front().is_some_and(|held| held.waiting == 0) {
            let Some(HeldBatch { events, mark: Some(mark), .. }) = self.batches.pop_front() else { continue };
            self.ahead -= events.len() as u64;
            let end = mark.position.clone();
            empty = Some(EventBatch::new(events.rows.slice(0, 0), vec![], vec![], end));
            last = Some(mark);
        }
        (empty, last)
    }
}

#[cfg(test)]
mod tests {
    use super::super::progress::ReadCounts;
    use super::*;
    use crate::Position;
    use arrow::array::{Int64Array, RecordBatch};
    use arrow::datatypes::{DataType, Field, Schema};
    use std::sync::Arc;

    fn batch(seconds: &[i64], end: u64) -> EventBatch {
        let schema = Schema::new(vec![Field::new("a", DataType::Int64, true)]);
        let column = Int64Array::from(seconds.to_vec());
        let rows = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(column)]).unwrap();
        let times: Vec<i64> = seconds.iter().map(|second| second * 1_000_000_000).collect();
        let numbers: Vec<u64> = (0..seconds.len() as u64).collect();
        EventBatch::new(rows, times, numbers, Position { rows: end, ..Position::default() })
    }

    /// Pushes a batch, and returns the seconds of the rows that are ready and the position that may be acknowledged.
    fn push(buffer: &mut ReorderBuffer, seconds: &[i64], end: u64) -> Vec<(Vec<i64>, Option<u64>)> {
        for second in seconds {
            buffer.admit(Time(second * 1_000_000_000), 0).unwrap();
        }
        let events = batch(seconds, end);
        let (newest, rows) = (buffer.newest_row(), ReadCounts::default());
        let mark = SourceMark { position: events.end.clone(), newest, rows };
        buffer.push(events, Some(mark));
        leave(buffer, false)
    }

    fn leave(buffer: &mut ReorderBuffer, all: bool) -> Vec<(Vec<i64>, Option<u64>)> {
        let mut left = Vec::new();
        while let Some(part) = buffer.ready(all).unwrap() {
            let seconds = part.events.times.iter().map(|time| time / 1_000_000_000).collect();
            left.push((seconds, part.through.map(|mark| mark.position.rows)));
        }
        left
    }

    #[test]
    fn a_batch_is_acknowledged_when_its_last_row_has_left() {
        let mut buffer = ReorderBuffer::new(Duration::from_secs(3));
        assert_eq!(push(&mut buffer, &[1, 5, 4], 3), [(vec![1], None)]);
        assert_eq!(buffer.admit(Time(1_000_000_000), 0), Err(Time(2_000_000_000)));
        assert_eq!(push(&mut buffer, &[], 4), []);
        assert_eq!(push(&mut buffer, &[8, 6], 6), [(vec![4, 5], Some(4))]);
        assert_eq!(push(&mut buffer, &[9], 7), [(vec![6], None)]);
        assert_eq!(leave(&mut buffer, true), [(vec![8, 9], Some(7))]);
        assert_eq!(push(&mut buffer, &[], 9), [(vec![], Some(9))]);
    }
}
