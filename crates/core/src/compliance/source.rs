//! Tests of the contract of sources.

use std::any::Any;
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::{
    EventBatch, Position, Source, SourceContext, SourceError, SourceFactory, SourceRequest, StopToken,
};

/// Inputs to test a kind of source with. The suite overwrites the contexts of the requests.
pub struct SourceCase<'a> {
    /// The kind of source.
    pub factory: &'a dyn SourceFactory,
    /// An input of at least four rows that all decode.
    pub good: SourceRequest,
    /// Number of rows of the good input.
    pub rows: usize,
    /// An input with exactly one bad row, and good rows before and after it; `None` if there is no
    /// such input of this kind.
    pub bad: Option<BadInput<'a>>,
    /// An input that does not exist.
    pub missing: SourceRequest,
    /// An input that has at least four rows and then cannot be read further; `None` if there is no such input of this
    /// kind.
    pub cut_off: Option<SourceRequest>,
    /// Creates an input that has some rows ready and then blocks without ending; `None` if there is no such input of
    /// this kind.
    pub live: Option<&'a dyn Fn() -> LiveInput>,
}

/// An input with exactly one bad row.
pub struct BadInput<'a> {
    /// How to open it.
    pub request: SourceRequest,
    /// The number of the bad row.
    pub row: u64,
    /// The column at fault, if it is one column.
    pub column: Option<&'a str>,
}

/// An input that blocks.
pub struct LiveInput {
    /// How to open it.
    pub request: SourceRequest,
    /// Number of rows that are ready.
    pub ready: usize,
    /// The other end of the input, which keeps it open.
    pub writer: Box<dyn Any>,
}

/// Tests the contract of [`Source`] on a kind of source.
///
/// # Panics
/// If the contract is broken.
pub fn check_source(case: &SourceCase<'_>) {
    same_rows_whatever_the_batch_size(case);
    schema_is_fixed(case);
    none_at_the_end_and_again(case);
    position_restores_to_the_next_row(case);
    errors_name_the_place(case);
    rows_before_an_error_are_given(case);
    stops_before_it_reads(case);
    if let Some(live) = case.live {
        rows_do_not_wait_for_a_full_batch(case, live());
        stops_while_blocked(case, live());
    }
}

/// A row as text, with its time and number.
type RowText = (i64, u64, Vec<String>);

fn open(
    case: &SourceCase<'_>,
    request: &SourceRequest,
    max_rows: usize,
    stop: &StopToken,
) -> Box<dyn Source> {
    try_open(case, request, max_rows, stop).unwrap_or_else(|error| panic!("it must open, but: {error}"))
}

fn try_open(
    case: &SourceCase<'_>,
    request: &SourceRequest,
    max_rows: usize,
    stop: &StopToken,
) -> Result<Box<dyn Source>, SourceError> {
    let max_rows = NonZeroUsize::new(max_rows).expect("at least one row");
    let context = SourceContext { stop: stop.clone(), max_rows, ..SourceContext::default() };
    case.factory.open(&SourceRequest { context, ..request.clone() })
}

fn batches(source: &mut dyn Source) -> Vec<EventBatch> {
    let mut batches = Vec::new();
    while let Some(batch) = source.next_batch().expect("it must read") {
        batches.push(batch);
    }
    batches
}

fn rows(batches: &[EventBatch]) -> Vec<RowText> {
    let options = FormatOptions::default().with_null("∅");
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<ArrayFormatter<'_>> = batch
            .rows
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options).expect("a printable column"))
            .collect();
        for row in 0..batch.len() {
            let fields = columns.iter().map(|column| column.value(row).to_string()).collect();
            rows.push((batch.times[row], batch.row_numbers[row], fields));
        }
    }
    rows
}

fn same_rows_whatever_the_batch_size(case: &SourceCase<'_>) {
    let read = |max_rows: usize| {
        let batches = batches(&mut *open(case, &case.good, max_rows, &StopToken::default()));
        for batch in &batches {
            assert!(batch.len() <= max_rows, "a batch has at most `max_rows` rows");
            assert_eq!(batch.times.len(), batch.len(), "as many times as rows");
            assert_eq!(batch.row_numbers.len(), batch.len(), "as many row numbers as rows");
            assert!(batch.rejected.is_empty(), "the good input has no bad row: {:?}", batch.rejected);
        }
        rows(&batches)
    };
    let whole = read(usize::MAX);
    assert_eq!(whole.len(), case.rows, "every row of the good input");
    let source = open(case, &case.good, 1, &StopToken::default());
    if source.source_files().names().nth(1).is_some() {
        let numbers: BTreeSet<u64> = whole.iter().map(|row| row.1).collect();
        assert_eq!(numbers.len(), whole.len(), "row numbers are different");
    } else {
        assert!(whole.is_sorted_by(|a, b| a.1 < b.1), "row numbers increase");
    }
    for max_rows in [1, 2, 3, 1000] {
        assert_eq!(read(max_rows), whole, "the same rows in batches of {max_rows}");
    }
}

fn schema_is_fixed(case: &SourceCase<'_>) {
    let mut source = open(case, &case.good, 2, &StopToken::default());
    let schema = source.schema();
    for field in schema.fields() {
        let wanted = case.good.wanted.iter().find(|wanted| &wanted.name == field.name());
        let wanted = wanted.unwrap_or_else(|| panic!("column `{}` was not wanted", field.name()));
        assert_eq!(field.data_type(), &wanted.data_type, "column `{}` has its wanted type", field.name());
    }
    let offers = source.offers();
    assert!(
        offers.is_empty() || schema.fields().iter().all(|field| offers.contains(field.name())),
        "it offers what it has"
    );
    while let Some(batch) = source.next_batch().expect("it must read") {
        assert_eq!(batch.rows.schema(), schema, "every batch has the schema");
        assert_eq!(source.schema(), schema, "the schema stays");
    }
    assert_eq!(source.schema(), schema, "the schema stays to the end");
    assert!(!source.name().is_empty(), "it has a name");
}

fn none_at_the_end_and_again(case: &SourceCase<'_>) {
    let mut source = open(case, &case.good, 1000, &StopToken::default());
    batches(&mut *source);
    for _ in 0..3 {
        assert!(source.next_batch().expect("no error after the end").is_none(), "nothing after the end");
    }
}

fn position_restores_to_the_next_row(case: &SourceCase<'_>) {
    for request in [Some(&case.good), case.bad.as_ref().map(|bad| &bad.request)].into_iter().flatten() {
        let batches = batches(&mut *open(case, request, 1, &StopToken::default()));
        let all = rows(&batches);
        let (mut good, mut read) = (0, 0);
        for batch in &batches {
            good += batch.len();
            read += batch.len() + batch.rejected.len();
            assert_eq!(batch.end.rows, read as u64, "a position counts every row before it");
            let resumed = SourceRequest { resume: Some(batch.end.clone()), ..request.clone() };
            let rest = self::batches(&mut *open(case, &resumed, 2, &StopToken::default()));
            assert_eq!(rows(&rest), all[good..], "the rows after {:?}", batch.end);
            if let (Some(last), Some(end)) = (rest.last(), batches.last()) {
                assert_eq!(last.end, end.end, "the same end, whether resumed or not");
            }
        }
    }
    let nonsense = Position { rows: 1, resume: (*b"nonsense").into() };
    let resumed = SourceRequest { resume: Some(nonsense), ..case.good.clone() };
    assert!(try_open(case, &resumed, 2, &StopToken::default()).is_err(), "a foreign position is refused");
}

fn errors_name_the_place(case: &SourceCase<'_>) {
    if let Some(bad) = &case.bad {
        bad_rows_are_named(case, bad);
    }
    let error = match try_open(case, &case.missing, 1000, &StopToken::default()) {
        Ok(_) => panic!("what does not exist cannot be opened"),
        Err(error) => error.to_string(),
    };
    assert!(error.contains(&case.missing.location), "the error names the input: {error}");
}

fn bad_rows_are_named(case: &SourceCase<'_>, bad: &BadInput<'_>) {
    let batches = batches(&mut *open(case, &bad.request, 1000, &StopToken::default()));
    let rejected: Vec<_> = batches.iter().flat_map(|batch| &batch.rejected).collect();
    let [rejected] = rejected.as_slice() else { panic!("exactly one bad row, not {rejected:?}") };
    let place = (rejected.row, rejected.column.as_deref());
    assert_eq!(place, (bad.row, bad.column), "row and column of the bad row");
    assert!(!rejected.reason.is_empty(), "a reason");
    let good = rows(&batches);
    assert!(good.iter().any(|row| row.1 < rejected.row), "good rows before the bad one are kept");
    assert!(good.iter().any(|row| row.1 > rejected.row), "good rows after the bad one are kept");
    assert!(good.iter().all(|row| row.1 != rejected.row), "the bad row is not among the good ones");
}

fn rows_before_an_error_are_given(case: &SourceCase<'_>) {
    let Some(cut_off) = &case.cut_off else { return };
    let read = |max_rows: usize| {
        let mut source = open(case, cut_off, max_rows, &StopToken::default());
        let mut batches = Vec::new();
        loop {
            match source.next_batch() {
                Ok(Some(batch)) => batches.push(batch),
                Ok(None) => panic!("what is cut off does not end well"),
                Err(error) => return (rows(&batches), error.to_string()),
            }
        }
    };
    let (single, error) = read(1);
    assert!(single.len() >= 4, "the rows before the error");
    assert!(error.contains(&cut_off.location), "the error names the input: {error}");
    for max_rows in [3, 1_000_000] {
        assert_eq!(read(max_rows), (single.clone(), error.clone()), "the same rows in batches of {max_rows}");
    }
}

fn stops_before_it_reads(case: &SourceCase<'_>) {
    let stop = StopToken::default();
    let mut source = open(case, &case.good, 1, &stop);
    source.next_batch().expect("it must read");
    stop.stop();
    let mut left = 0;
    while source.next_batch().expect("stopping is no error").is_some() {
        left += 1;
        assert!(left < 3, "it ends soon after it was stopped");
    }
}

fn rows_do_not_wait_for_a_full_batch(case: &SourceCase<'_>, live: LiveInput) {
    let stop = StopToken::default();
    let mut source = open(case, &live.request, 1_000_000, &stop);
    let (given, batches) = mpsc::channel();
    thread::spawn(move || {
        while let Some(batch) = source.next_batch().expect("it must read") {
            let _ = given.send(batch.len());
        }
    });
    let next = || batches.recv_timeout(Duration::from_secs(5));
    let mut read = 0;
    while read < live.ready {
        read += next().expect("rows that are ready come soon");
    }
    assert_eq!(next(), Ok(0), "an empty batch comes while it waits");
    stop.stop();
    drop(live.writer);
}

fn stops_while_blocked(case: &SourceCase<'_>, live: LiveInput) {
    let stop = StopToken::default();
    let mut source = open(case, &live.request, 1000, &stop);
    let (ended, end) = mpsc::channel();
    thread::spawn(move || {
        batches(&mut *source);
        let _ = ended.send(());
    });
    assert!(end.recv_timeout(Duration::from_millis(300)).is_err(), "it waits for the silent input");
    stop.stop();
    assert!(end.recv_timeout(Duration::from_secs(1)).is_ok(), "it stops within a second while blocked");
    drop(live.writer);
}
