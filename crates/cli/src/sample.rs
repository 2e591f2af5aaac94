//! Samples the first rows of a data file: its columns, and some of their values as text.

use std::num::NonZeroUsize;
use std::sync::Arc;

use anyhow::bail;
use arrow::array::Array;
use arrow::datatypes::{DataType, Field};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use fairstream_core::{
    Options, ROW_ORDER_ONLY, RejectedRow, SourceContext, SourceFactory, SourceRequest, WantedColumn,
};
use fairstream_fairness::{ColumnSample, EventColumn, column_types};
use fairstream_files::FOLLOW;

use crate::joins;
use crate::registry::{self, Address};

/// Number of rows that are sampled before a run.
const ROWS: usize = 10_000;

/// The columns of inputs that can be read twice, with types inferred from their first rows.
pub(crate) fn columns(
    inputs: &[Address],
    time: Option<&str>,
    time_format: Option<&str>,
) -> anyhow::Result<Vec<EventColumn>> {
    let mut columns: Vec<EventColumn> = Vec::new();
    for input in inputs.iter().filter(|input| input.location != "-") {
        for column in column_types(&samples(input, time, time_format, ROWS, false)?.columns) {
            if !columns.iter().any(|known| known.name == column.name) {
                columns.push(column);
            }
        }
    }
    Ok(columns)
}

/// The first rows of inputs that can be read twice, one input after another. One that cannot be sampled is left out.
pub(crate) fn first_rows(
    inputs: &[Address],
    time: Option<&str>,
    time_format: Option<&str>,
) -> Vec<ColumnSample> {
    let of_files = inputs.iter().filter(|input| input.location != "-");
    let samples = of_files.filter_map(|input| samples(input, time, time_format, ROWS, false).ok());
    samples.flat_map(|samples| samples.columns).collect()
}

/// The columns of a data file, and the times of its first rows.
#[derive(Default)]
pub(crate) struct Samples {
    pub(crate) columns: Vec<ColumnSample>,
    /// Columns whose types cannot be read, or whose names several columns have.
    pub(crate) unread: Vec<String>,
    /// Nanoseconds since 1970, one for each row whose values are kept.
    pub(crate) times: Vec<i64>,
    /// Whether rows are in order of time.
    pub(crate) is_sorted: bool,
    pub(crate) rows: usize,
    /// The first row that cannot be read.
    pub(crate) rejected: Option<RejectedRow>,
}

/// The names of all columns of a data file, those of the time included.
pub(crate) fn names(input: &Address) -> anyhow::Result<Vec<String>> {
    let kind = registry::source_for(input)?;
    let mut options = input.options.clone();
    if takes_time(&*kind) {
        options.set("time", ROW_ORDER_ONLY);
    }
    let columns = kind.columns(&request(input, options, Vec::new()))?;
    Ok(columns.into_iter().map(|column| column.name).collect())
}

/// Whether a kind of source has the option that names the column of the time.
pub(crate) fn takes_time(kind: &dyn SourceFactory) -> bool {
    kind.adapter().options.iter().any(|option| option.name == "time")
}

/// The options without one that waits for rows which are not there yet.
pub(crate) fn without_waiting(mut options: Options) -> Options {
    options.take(FOLLOW.name);
    options
}

fn request(input: &Address, options: Options, wanted: Vec<WantedColumn>) -> SourceRequest {
    let options = without_waiting(options);
    SourceRequest {
        location: input.location.clone(),
        options,
        wanted,
        context: SourceContext {
            max_rows: NonZeroUsize::new(ROWS).unwrap_or(NonZeroUsize::MIN),
            ..SourceContext::default()
        },
        ..SourceRequest::default()
    }
}

/// Samples a number of values of every column except the time. Without a need of times, rows are sampled whether their
/// time can be read or not: a run says so better than a type that is not known.
pub(crate) fn samples(
    input: &Address,
    time: Option<&str>,
    time_format: Option<&str>,
    rows: usize,
    needs_times: bool,
) -> anyhow::Result<Samples> {
    let kind = registry::source_for(input)?;
    let table = joins::is_table(input).then(|| joins::without_key(input));
    let mut options = table.as_ref().unwrap_or(input).options.clone();
    for (key, value) in [("time", time), ("time_format", time_format)] {
        if let Some(value) = value.filter(|_| takes_time(&*kind)) {
            options.set_default(key, value);
        }
    }
    let request = |wanted: Vec<WantedColumn>| request(input, options.clone(), wanted);
    let time = options.text("time").unwrap_or("time");
    let mut samples = Samples { is_sorted: true, ..Samples::default() };
    let mut wanted = kind.columns(&request(Vec::new()))?;
    if wanted.is_empty() {
        bail!("{}: there is no column, or the columns cannot be known before they are read", input.location);
    }
    let offered = kind.open(&request(Vec::new()))?.offers();
    let is_listed = |name: &&String| wanted.iter().any(|column| column.name == **name);
    samples.unread = offered.iter().filter(|name| !is_listed(name) && *name != time).cloned().collect();
    samples.unread.dedup();
    wanted.retain(|column| {
        let is_known = rtlola_type(&column.data_type).is_some() || column.data_type == DataType::Utf8;
        if !is_known {
            samples.unread.push(column.name.clone());
        }
        is_known && column.name != time
    });
    let mut last_request = request(wanted);
    if !needs_times && takes_time(&*kind) {
        last_request.options.set("time", ROW_ORDER_ONLY);
    }
    let mut source = kind.open(&last_request)?;
    let schema = source.schema();
    // The values of a column of text are whatever they look like, unless other columns have types.
    let is_untyped = kind.adapter().name == "csv";
    let of_text = || (!is_untyped).then(|| "String".to_owned());
    let column =
        |field: &Arc<Field>| ColumnSample::new(field.name(), rtlola_type(field.data_type()).or_else(of_text));
    samples.columns = schema.fields().iter().map(column).collect();
    let mut last = i64::MIN;
    while samples.rows < rows
        && let Some(batch) = source.next_batch()?
    {
        samples.rows += batch.len();
        samples.is_sorted &=
            batch.times.first().is_none_or(|first| last <= *first) && batch.times.is_sorted();
        last = batch.times.last().copied().unwrap_or(last);
        samples.rejected = samples.rejected.or_else(|| batch.rejected.first().cloned());
        let missing = ColumnSample::KEPT.saturating_sub(samples.times.len());
        samples.times.extend(batch.times.iter().take(missing));
        for (sample, column) in samples.columns.iter_mut().zip(batch.rows.columns()) {
            let texts = ArrayFormatter::try_new(column.as_ref(), &FormatOptions::default())?;
            for row in 0..column.len() {
                sample.add(column.is_valid(row).then(|| texts.value(row).to_string()).as_deref());
            }
        }
    }
    match &samples.rejected {
        Some(bad) if samples.rows == 0 => bail!("{}: {bad}", input.location),
        _ => Ok(samples),
    }
}

/// The type of a column in the source; `None` for text, whose type is inferred.
fn rtlola_type(data_type: &DataType) -> Option<String> {
    let name = match data_type {
        DataType::Boolean => "Bool",
        DataType::Int8 => "Int8",
        DataType::Int16 => "Int16",
        DataType::Int32 => "Int32",
        DataType::Int64 => "Int64",
        DataType::UInt8 => "UInt8",
        DataType::UInt16 => "UInt16",
        DataType::UInt32 => "UInt32",
        DataType::UInt64 => "UInt64",
        DataType::Float32 | DataType::Float64 => "Float64",
        _ => return None,
    };
    Some(name.to_owned())
}
