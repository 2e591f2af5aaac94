//! Reads a source to its end, and checks what must hold for every source.

use std::num::NonZeroUsize;
use std::path::Path;

use arrow::util::display::{ArrayFormatter, FormatOptions};
use fairstream_core::{Options, SourceContext, SourceFactory, SourceRequest, WantedColumn};

/// Result of reading a source.
#[derive(Debug, PartialEq)]
pub(crate) struct Reading {
    pub(crate) rows: Vec<Row>,
    /// Row and reason.
    pub(crate) rejected: Vec<(u64, String)>,
    pub(crate) error: Option<String>,
}

/// A row with its number, its time, and its values as text.
#[derive(Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) number: u64,
    pub(crate) time: i64,
    pub(crate) values: Vec<Option<String>>,
}

/// A request to a source.
#[derive(Clone, Default)]
pub(crate) struct Question {
    pub(crate) wanted: Vec<WantedColumn>,
    pub(crate) options: Options,
}

/// Reads bytes as a file with this name, twice: rows must not depend on the size of batches. `None` if they cannot
/// be opened.
pub(crate) fn read(
    factory: &dyn SourceFactory,
    name: &str,
    bytes: &[u8],
    question: impl Fn(&Path) -> Option<Question>,
) -> Option<Reading> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let question = question(&path)?;
    let whole = read_in_batches(factory, &path, &question, 1 << 16)?;
    let small = read_in_batches(factory, &path, &question, 2)?;
    assert_eq!(small, whole, "rows depend on the size of batches");
    Some(whole)
}

fn read_in_batches(
    factory: &dyn SourceFactory,
    path: &Path,
    question: &Question,
    max_rows: usize,
) -> Option<Reading> {
    let mut source = factory.open(&request(path, question, max_rows)).ok()?;
    let mut reading = Reading { rows: Vec::new(), rejected: Vec::new(), error: None };
    let schema = source.schema();
    let format = FormatOptions::default().with_display_error(true);
    loop {
        let batch = match source.next_batch() {
            Ok(Some(batch)) => batch,
            Ok(None) => return Some(reading),
            Err(error) => {
                reading.error = Some(error.to_string());
                return Some(reading);
            }
        };
        assert_eq!(batch.rows.schema(), schema, "every batch has the schema");
        assert!(batch.len() <= max_rows, "a batch has at most as many rows as allowed");
        assert_eq!((batch.times.len(), batch.row_numbers.len()), (batch.len(), batch.len()));
        reading.rejected.extend(batch.rejected.iter().map(|bad| (bad.row, bad.reason.clone())));
        let columns: Vec<ArrayFormatter<'_>> = batch
            .rows
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &format).unwrap())
            .collect();
        for row in 0..batch.len() {
            let value = |(column, texts): (&arrow::array::ArrayRef, &ArrayFormatter<'_>)| {
                column.is_valid(row).then(|| texts.value(row).to_string())
            };
            let values = batch.rows.columns().iter().zip(&columns).map(value).collect();
            reading.rows.push(Row { number: batch.row_numbers[row], time: batch.times[row], values });
        }
    }
}

/// The names of the columns that a file offers.
pub(crate) fn offers(factory: &dyn SourceFactory, path: &Path, question: &Question) -> Option<Vec<String>> {
    factory.open(&request(path, question, 1)).ok().map(|source| source.offers())
}

/// Removes the columns that cannot be read as requested: a run with them does not start.
pub(crate) fn keep_fitting(factory: &dyn SourceFactory, path: &Path, question: &mut Question) -> Option<()> {
    let schema = factory.open(&request(path, question, 1)).ok()?.schema();
    let fits = |wanted: &WantedColumn| {
        schema.field_with_name(&wanted.name).is_ok_and(|field| *field.data_type() == wanted.data_type)
    };
    question.wanted.retain(fits);
    Some(())
}

fn request(path: &Path, question: &Question, max_rows: usize) -> SourceRequest {
    SourceRequest {
        location: path.to_str().unwrap().to_owned(),
        wanted: question.wanted.clone(),
        options: question.options.clone(),
        context: SourceContext { max_rows: NonZeroUsize::new(max_rows).unwrap(), ..SourceContext::default() },
        ..SourceRequest::default()
    }
}
