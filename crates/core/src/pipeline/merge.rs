//! Merges the sources by time; equal times keep the order of the sources.
//!
//! A row leaves the merge once no source can give an earlier one: each has a next row that is not earlier, or has said by its
//! watermark that none will come, or has ended. A live source that has been silent for long is not waited for, and the clock
//! of the machine may decide that earlier rows come too late. Rows that come nevertheless are late rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::compute::interleave_record_batch;
use arrow::error::ArrowError;
use crossbeam_channel::{Receiver, Select, TryRecvError};

use super::progress::{SourceMark, SourceProgress};
use super::wall_clock::{ClockMode, TimeOptions};
use crate::{EventBatch, Position, SourceError, Time};

/// Rows of one source in order of time.
pub(super) struct OrderedRows {
    pub(super) events: EventBatch,
    /// All rows of the source up to here have been sent; `None` if that has not changed.
    pub(super) through: Option<SourceMark>,
    /// Number of rows behind it that have been sent too, with these.
    pub(super) ahead: u64,
    /// No row that is sent after these is older than this.
    pub(super) watermark: Time,
    /// The time of the oldest row that waits to be put in order.
    pub(super) waiting: Option<Time>,
}

/// A message from a source's thread. If the channel is disconnected without `End` or `Failed`, the source was stopped.
pub(super) enum SourceMessage {
    Rows(OrderedRows),
    /// The last message of a source that has no more rows.
    End,
    /// The last message of a source that failed.
    Failed(SourceError),
}

/// A source that has given no rows for so long has none at the moment: what was written while nothing ran has been read.
const SILENT: Duration = Duration::from_secs(1);

/// Maximum number of rows in a merged batch.
pub(super) const ROWS_AT_ONCE: usize = 8192;

/// K-way merge of all sources by time.
pub(super) struct Merge {
    inputs: Vec<MergeInput>,
    /// An error that is returned once the rows before it have been returned.
    error: Option<SourceError>,
    times: TimeOptions,
    ticks: Receiver<Instant>,
    /// The newest time that has left the merge.
    left: Time,
    /// The clock of the machine has passed this, so that rows up to it come too late.
    passed: Time,
    /// Where the threads of sources see up to where the clock would pass.
    wall: Arc<AtomicI64>,
    /// Called for a row that comes too late.
    on_late: OnLate,
}

/// Called with the index of a source, its batch, the index of a row in it that comes too late, and why. An error ends the run.
pub(super) type OnLate = Box<dyn FnMut(usize, &EventBatch, usize, String) -> Result<(), SourceError> + Send>;

/// What comes next.
pub(super) enum MergeStep {
    /// Rows.
    Rows(Merged),
    /// The clock has ticked, and no rows are ready.
    Tick,
}

/// A merged batch.
pub(super) struct Merged {
    pub(super) events: EventBatch,
    /// Index of the source of each row; `None` if there is only one source.
    pub(super) sources: Option<Vec<usize>>,
}

struct MergeInput {
    messages: Receiver<SourceMessage>,
    is_live: bool,
    ended: bool,
    /// Whether it was stopped, so that its further rows are unknown.
    stopped: bool,
    /// The rows that are merged next, and the index of the first unmerged one.
    head: Option<(OrderedRows, usize)>,
    /// How far its rows have been merged.
    progress: SourceProgress,
    /// No further row is older than this, once those of the head are merged.
    watermark: Time,
    /// The time of the oldest row that its thread holds back to put it in order.
    waiting: Option<Time>,
    /// By the elapsed time of the clock: when rows came last.
    heard: Duration,
    /// How far behind the clock of the machine the newest row was when it came; `None` if its time counts from the start of
    /// a trace, or there has been none.
    lag: Option<Duration>,
    /// Whether its times count from the start of a trace.
    is_relative: bool,
    /// Number of rows that came too late.
    late: u64,
}

impl MergeInput {
    fn time(&self) -> Option<i64> {
        self.head.as_ref().map(|(part, next)| part.events.times[*next])
    }

    /// Whether the merge has to wait for its next row.
    fn is_wanting(&self) -> bool {
        self.head.is_none() && !self.ended && !self.stopped
    }

    /// Whether it may still give a row that comes before one of the source `other` at a time.
    fn may_precede(&self, own: usize, other: usize, time: i64, idle_before: Duration) -> bool {
        let is_idle = self.is_live && self.heard < idle_before;
        let is_past = self.watermark.0 > time || (self.watermark.0 == time && own > other);
        self.is_wanting() && !is_idle && !is_past
    }

    fn finish_part(&mut self, part: OrderedRows) {
        self.watermark = part.watermark;
        self.waiting = part.waiting;
        self.progress.pass(part.through, part.ahead);
    }

    /// How far it has been evaluated once everything that has left the merge is.
    fn progress(&self) -> SourceProgress {
        let mut progress = self.progress.clone();
        if let Some((_, next)) = &self.head {
            progress.ahead += *next as u64;
        }
        progress.rows.late += self.late;
        progress.rows.rejected += self.late;
        progress
    }
}

impl Merge {
    /// Merges the sources behind these channels, each with whether it is live and how far an earlier run has come.
    pub(super) fn new(
        inputs: Vec<(Receiver<SourceMessage>, bool, SourceProgress)>,
        times: TimeOptions,
        ticks: Receiver<Instant>,
        wall: Arc<AtomicI64>,
        on_late: OnLate,
    ) -> Merge {
        let input = |(messages, is_live, progress)| MergeInput {
            messages,
            is_live,
            ended: false,
            stopped: false,
            head: None,
            progress,
            watermark: Time(i64::MIN),
            waiting: None,
            heard: times.clock.elapsed(),
            lag: None,
            is_relative: false,
            late: 0,
        };
        let inputs = inputs.into_iter().map(input).collect();
        let start = Time(i64::MIN);
        Merge { inputs, error: None, times, ticks, left: start, passed: start, wall, on_late }
    }

    /// How far each source has been evaluated once everything that has left the merge is.
    pub(super) fn progress(&self) -> Vec<SourceProgress> {
        self.inputs.iter().map(MergeInput::progress).collect()
    }

    /// The next step; `None` when every source has ended, or one was stopped.
    pub(super) fn next(&mut self) -> Option<Result<MergeStep, SourceError>> {
        if self.inputs.len() == 1 {
            return self.next_of_one();
        }
        match self.gather_ready(true) {
            Ok(Gathered::Rows(merged)) => Some(Ok(MergeStep::Rows(merged))),
            Ok(Gathered::Tick) => Some(Ok(MergeStep::Tick)),
            Ok(Gathered::Nothing) => self.error.take().map(Err),
            Err(error) => Some(Err(error)),
        }
    }

    /// Rows up to a time that are there, although sources that are silent might still give earlier ones: those will be late.
    pub(super) fn rows_until(&mut self, time: Time) -> Result<Option<Merged>, SourceError> {
        self.passed = self.passed.max(time);
        match self.gather_ready(false)? {
            Gathered::Rows(merged) => Ok(Some(merged)),
            Gathered::Tick | Gathered::Nothing => Ok(None),
        }
    }

    /// The clock of the machine has passed this time.
    pub(super) fn passed(&self) -> Option<Time> {
        (self.passed.0 > i64::MIN).then_some(self.passed)
    }

    /// Continues behind rows up to a time, and behind what the clock had passed.
    pub(super) fn resume(&mut self, left: Option<Time>, passed: Option<Time>) {
        self.left = left.unwrap_or(self.left);
        self.passed = passed.unwrap_or(self.passed);
    }

    /// The time up to which the clock of the machine has passed, if it decides.
    pub(super) fn wall_time(&mut self) -> Option<Time> {
        // What came before the tick is not too late for it.
        self.fill_all();
        let live = || self.inputs.iter().filter(|input| input.is_live);
        let is_up_to_date =
            |input: &MergeInput| input.ended || input.lag.is_some_and(|lag| lag <= self.times.lateness);
        let silent_since = self.times.clock.elapsed().saturating_sub(SILENT);
        let has_no_backlog = |input: &MergeInput| {
            !input.is_relative
                && (is_up_to_date(input) || (input.head.is_none() && input.heard <= silent_since))
        };
        let decides = match self.times.mode {
            ClockMode::Events => false,
            ClockMode::Wall => live().all(has_no_backlog),
            ClockMode::Auto => live().next().is_some() && live().all(is_up_to_date),
        };
        // Files are read to their end first.
        let is_reading = self.inputs.iter().any(|input| !input.is_live && !input.ended);
        if !decides || is_reading {
            return None;
        }
        // A row of that very time may still come.
        let now = self.times.clock.now().saturating_sub(self.times.lateness).0.saturating_sub(1);
        self.wall.fetch_max(now, Ordering::Relaxed);
        // Rows that came in time wait to be put in order, and go first.
        let waiting = self.inputs.iter().filter_map(|input| {
            let in_head = input.head.as_ref().and_then(|(part, _)| part.waiting);
            in_head.or(input.waiting)
        });
        Some(Time(waiting.map(|time| time.0.saturating_sub(1)).fold(now, i64::min)))
    }

    fn next_of_one(&mut self) -> Option<Result<MergeStep, SourceError>> {
        loop {
            if let Some((part, next)) = self.inputs[0].head.take() {
                let rows = part.events.len();
                let events =
                    if next == 0 { part.events.clone() } else { part.events.slice(next, rows - next) };
                self.left = self.left.max(events.times.last().map_or(self.left, |time| Time(*time)));
                self.inputs[0].finish_part(part);
                return Some(Ok(MergeStep::Rows(Merged { events, sources: None })));
            }
            self.fill_all();
            if let Some(error) = self.error.take() {
                return Some(Err(error));
            }
            let input = &mut self.inputs[0];
            if input.head.is_some() {
                continue;
            }
            if input.ended || input.stopped {
                return None;
            }
            if wait(&[input], &self.ticks) {
                return Some(Ok(MergeStep::Tick));
            }
        }
    }

    /// Receives the next rows of a source without blocking, if there are any and they are wanted.
    fn fill(&mut self, source: usize) -> Result<(), SourceError> {
        let input = &mut self.inputs[source];
        while input.is_wanting() {
            match input.messages.try_recv() {
                Ok(SourceMessage::Rows(part)) => {
                    let Some(newest) = part.events.times.last().map(|time| Time(*time)) else {
                        input.finish_part(part);
                        continue;
                    };
                    input.heard = self.times.clock.elapsed();
                    if self.times.mode != ClockMode::Events && input.is_live {
                        let behind = self.times.clock.now().0.saturating_sub(newest.0);
                        let lag = Duration::from_nanos(u64::try_from(behind).unwrap_or(0));
                        // Times that count from the start of a trace are not those of a clock.
                        input.is_relative = part.events.relative;
                        input.lag = (!part.events.relative).then_some(lag);
                    }
                    // Most often no row is late, and this looks at the first alone.
                    let late = part
                        .events
                        .times
                        .iter()
                        .take_while(|time| **time <= self.passed.0 || **time < self.left.0);
                    let late = late.count();
                    input.late += late as u64;
                    for row in 0..late {
                        let reason = reason(Time(part.events.times[row]), self.passed, self.left);
                        (self.on_late)(source, &part.events, row, reason)?;
                    }
                    match part.events.len() - late {
                        0 => input.finish_part(part),
                        _ => input.head = Some((part, late)),
                    }
                }
                Ok(SourceMessage::End) => input.ended = true,
                Ok(SourceMessage::Failed(error)) => {
                    input.ended = true;
                    return Err(error);
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => input.stopped = true,
            }
        }
        Ok(())
    }

    fn fill_all(&mut self) {
        for source in 0..self.inputs.len() {
            if let Err(error) = self.fill(source) {
                self.error.get_or_insert(error);
            }
        }
    }

    /// Merges what is there. Where nothing is and `may_wait`, waits for a row or a tick of the clock.
    fn gather_ready(&mut self, may_wait: bool) -> Result<Gathered, SourceError> {
        let mut batches: Vec<EventBatch> = Vec::new();
        let mut heads: Vec<Option<usize>> = vec![None; self.inputs.len()];
        let mut indices = Vec::new();
        let mut sources = Vec::new();
        let mut is_tick = false;
        while indices.len() < ROWS_AT_ONCE {
            self.fill_all();
            // After the last row of a stopped source, the order of other rows is unknown.
            let stopped = |input: &MergeInput| input.stopped && input.head.is_none();
            if self.error.is_some() || self.inputs.iter().any(stopped) {
                break;
            }
            let Some(source) = self.next_source() else {
                let wanting: Vec<&MergeInput> =
                    self.inputs.iter().filter(|input| input.is_wanting()).collect();
                // Rows that are ready must not wait for a slow source.
                if !indices.is_empty() || !may_wait || wanting.is_empty() {
                    break;
                }
                if wait(&wanting, &self.ticks) {
                    is_tick = true;
                    break;
                }
                continue;
            };
            let input = &mut self.inputs[source];
            let Some((part, next)) = &mut input.head else { break };
            let batch = *heads[source].get_or_insert_with(|| {
                batches.push(part.events.clone());
                batches.len() - 1
            });
            self.left = self.left.max(part.events.time(*next));
            indices.push((batch, *next));
            sources.push(source);
            *next += 1;
            if *next == part.events.len()
                && let Some((part, _)) = input.head.take()
            {
                input.finish_part(part);
                heads[source] = None;
            }
        }
        if indices.is_empty() {
            return Ok(if is_tick { Gathered::Tick } else { Gathered::Nothing });
        }
        let merged = gather(&batches, &indices);
        let broken = |error: ArrowError| SourceError::Broken {
            origin: "the merge of the inputs".to_owned(),
            reason: error.to_string(),
        };
        Ok(Gathered::Rows(Merged { events: merged.map_err(broken)?, sources: Some(sources) }))
    }

    /// The source whose next row leaves the merge, if no other can give an earlier one.
    fn next_source(&self) -> Option<usize> {
        let times = self.inputs.iter().map(MergeInput::time).enumerate();
        let (time, source) = times.filter_map(|(source, time)| Some((time?, source))).min()?;
        if time <= self.passed.0 {
            return Some(source);
        }
        if !self.inputs.iter().any(MergeInput::is_wanting) {
            return Some(source);
        }
        let idle_before = self.times.clock.elapsed().saturating_sub(self.times.idle);
        let mut others = self.inputs.iter().enumerate();
        (!others.any(|(own, input)| input.may_precede(own, source, time, idle_before))).then_some(source)
    }
}

/// What there was to merge.
enum Gathered {
    Rows(Merged),
    Tick,
    Nothing,
}

/// Waits for a message of one of these sources, or for a tick of the clock. Whether it was a tick.
fn wait(wanting: &[&MergeInput], ticks: &Receiver<Instant>) -> bool {
    let mut select = Select::new();
    for input in wanting {
        select.recv(&input.messages);
    }
    let tick = select.recv(ticks);
    select.ready() == tick && ticks.try_recv().is_ok()
}

/// Why a row is late that was in time for its source.
fn reason(time: Time, passed: Time, left: Time) -> String {
    let time_text = time.for_people();
    if time <= passed {
        format!(
            "its time {time_text} is not after {}, up to which the clock of the machine has passed; if rows come later, allow for it with `--reorder 10m`, or take times from events alone with `--clock events`",
            passed.for_people()
        )
    } else {
        format!(
            "its time {time_text} is before {}, that of a row of another input which did not wait for this one, as it was silent; `--idle 10m` waits longer",
            left.for_people()
        )
    }
}

/// Gathers rows of several batches. `indices` are pairs of batch and row, in the new order.
pub(super) fn gather(batches: &[EventBatch], indices: &[(usize, usize)]) -> Result<EventBatch, ArrowError> {
    let rows: Vec<&RecordBatch> = batches.iter().map(|events| &events.rows).collect();
    let times: Vec<i64> = indices.iter().map(|(batch, row)| batches[*batch].times[*row]).collect();
    let numbers: Vec<u64> = indices.iter().map(|(batch, row)| batches[*batch].row_numbers[*row]).collect();
    let rows = interleave_record_batch(&rows, indices)?;
    let relative = indices.first().is_some_and(|(batch, _)| batches[*batch].relative);
    Ok(EventBatch { relative, ..EventBatch::new(rows, times, numbers, Position::default()) })
}
