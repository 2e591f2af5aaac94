//! Sources from plugins. Batches are checked here, whichever process they come from.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, UInt64Type};
use fairstream_core::{
    Adapter, EventBatch, Position, RejectedRow, Source, SourceError, SourceFactory, SourceRequest,
};
use fairstream_plugin_abi::ROW_COLUMNS;

use crate::isolated::{self, Isolation, WorkerCommand};
use crate::library::Library;
use crate::loaded::LoadedRows;
use crate::rows::{PluginRows, RowProgress, Trouble};

/// Opens the sources of plugins.
#[derive(Clone, Copy, Debug)]
pub struct PluginSources;

impl SourceFactory for PluginSources {
    fn adapter(&self) -> Adapter {
        Adapter {
            name: "plugin",
            about: "a source from a shared library, whose path is the location",
            extensions: &[],
            options: &isolated::OPTIONS,
        }
    }

    fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, SourceError> {
        let mut request = request.clone();
        let isolation = Isolation::of(&mut request.options).map_err(|bad| request.refuse(bad))?;
        match isolation {
            #[cfg(unix)]
            Some(isolation) => {
                let worker = WorkerCommand::this_executable().map_err(|error| request.cannot_open(error))?;
                isolated::source::open(&worker, isolation, &request)
            }
            #[cfg(not(unix))]
            Some(_) => Err(request.cannot_open(isolated::ONLY_UNIX)),
            None => {
                let library = Library::load(Path::new(&request.location));
                open(&library.map_err(|error| request.cannot_open(error))?, &request)
            }
        }
    }
}

/// Opens the source of a plugin in this process.
///
/// # Errors
/// The plugin has no source, or it cannot be opened.
pub fn open(library: &Library, request: &SourceRequest) -> Result<Box<dyn Source>, SourceError> {
    let rows = LoadedRows::open(library, request)?;
    let name = format!("{} ({} {})", request.location, library.name, library.version);
    let schema = rows.schema().clone();
    checked(Box::new(rows), schema, name, request)
}

/// The source of a plugin's rows, which are checked as they come.
///
/// # Errors
/// The schema is not what was asked for.
pub(crate) fn checked(
    rows: Box<dyn PluginRows>,
    schema: Schema,
    name: String,
    request: &SourceRequest,
) -> Result<Box<dyn Source>, SourceError> {
    let broken = |reason: String| SourceError::Broken { origin: request.location.clone(), reason };
    let schema = check_schema(schema, request).map_err(broken)?;
    let is_own = |field: &&Arc<Field>| !ROW_COLUMNS.iter().any(|(name, _)| field.name() == name);
    let own: Vec<Arc<Field>> = schema.fields().iter().filter(is_own).cloned().collect();
    Ok(Box::new(PluginSource {
        name,
        schema: Arc::new(Schema::new(own)),
        rows,
        last_row: 0,
        ended: false,
        request: request.clone(),
    }))
}

fn check_schema(schema: Schema, request: &SourceRequest) -> Result<Schema, String> {
    for (index, field) in schema.fields().iter().enumerate() {
        let name = field.name();
        if schema.fields().iter().take(index).any(|other| other.name() == name) {
            return Err(format!("it gives a column `{name}` twice"));
        }
        let of_rows = ROW_COLUMNS.iter().find(|(known, _)| name == known).map(|(_, data_type)| data_type);
        let wanted = request.wanted.iter().find(|wanted| wanted.name == *name);
        match of_rows.or(wanted.map(|wanted| &wanted.data_type)) {
            None => return Err(format!("it gives a column `{name}`, which was not requested")),
            Some(data_type) if data_type != field.data_type() => {
                return Err(format!(
                    "its column `{name}` is {}, but {data_type} is wanted",
                    field.data_type()
                ));
            }
            Some(_) => {}
        }
    }
    match ["_time", "_row"].into_iter().find(|name| schema.index_of(name).is_err()) {
        Some(name) => Err(format!("it gives no column `{name}`")),
        None => Ok(schema),
    }
}

struct PluginSource {
    name: String,
    /// Schema of the returned batches.
    schema: SchemaRef,
    rows: Box<dyn PluginRows>,
    last_row: u64,
    ended: bool,
    request: SourceRequest,
}

impl PluginSource {
    fn broken(&self, reason: impl Into<String>) -> SourceError {
        SourceError::Broken { origin: self.name.clone(), reason: reason.into() }
    }

    fn trouble(&self, trouble: Trouble) -> SourceError {
        match trouble {
            Trouble::Failed(reason) => {
                SourceError::Read { origin: self.name.clone(), row: self.last_row, cause: reason.into() }
            }
            Trouble::Broken(reason) => self.broken(reason),
        }
    }

    /// Converts a plugin's batch to events.
    fn events(&mut self, batch: &RecordBatch) -> Result<EventBatch, SourceError> {
        let none: ArrayRef = new_null_array(&DataType::Utf8, batch.num_rows());
        let column = |name: &str| batch.column_by_name(name).unwrap_or(&none);
        let (times, numbers) =
            (column("_time").as_primitive::<Int64Type>(), column("_row").as_primitive::<UInt64Type>());
        let (errors, faulty) = (column("_error").as_string::<i32>(), column("_column").as_string::<i32>());
        if batch.num_rows() > self.request.context.max_rows.get() {
            return Err(self
                .broken(format!("it gives a batch of {} rows, more than were asked for", batch.num_rows())));
        }
        if numbers.null_count() > 0
            || (0..batch.num_rows()).any(|row| times.is_null(row) && errors.is_null(row))
        {
            return Err(self.broken("it gives a row without a time or a number"));
        }
        for number in numbers.values() {
            if *number <= self.last_row && self.last_row > 0 {
                return Err(self.broken(format!("it gives row {number} after row {}", self.last_row)));
            }
            self.last_row = *number;
        }
        let rejected = (0..batch.num_rows()).filter(|row| errors.is_valid(*row)).map(|row| RejectedRow {
            row: numbers.value(row),
            column: faulty.is_valid(row).then(|| faulty.value(row).to_owned()),
            reason: errors.value(row).to_owned(),
        });
        let rejected: Vec<RejectedRow> = rejected.collect();
        let own: Vec<ArrayRef> =
            self.schema.fields().iter().map(|field| Arc::clone(column(field.name()))).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let cut = |error: arrow::error::ArrowError| self.broken(error.to_string());
        let mut rows =
            RecordBatch::try_new_with_options(Arc::clone(&self.schema), own, &options).map_err(cut)?;
        let (mut times, mut numbers) = (times.values().clone(), numbers.values().clone());
        if !rejected.is_empty() {
            let good: BooleanArray = (0..batch.num_rows()).map(|row| Some(errors.is_null(row))).collect();
            rows = filter_record_batch(&rows, &good).map_err(cut)?;
            times = times
                .iter()
                .zip(&good)
                .filter(|(_, good)| *good == Some(true))
                .map(|(time, _)| *time)
                .collect();
            numbers =
                numbers.iter().zip(&good).filter(|(_, good)| *good == Some(true)).map(|(n, _)| *n).collect();
        }
        let progress = self.rows.progress();
        let RowProgress { end, dropped, is_relative } = progress.map_err(|trouble| self.trouble(trouble))?;
        let mut events = EventBatch::new(rows, times, numbers, end);
        (events.rejected, events.dropped, events.relative) = (rejected, dropped, is_relative);
        Ok(events)
    }
}

impl Source for PluginSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>, SourceError> {
        if self.ended {
            return Ok(None);
        }
        let batch = match self.rows.next() {
            Ok(Some(batch)) => self.events(&batch).map(Some),
            Ok(None) => Ok(None),
            Err(trouble) => Err(self.trouble(trouble)),
        };
        self.ended = !matches!(batch, Ok(Some(_)));
        batch
    }

    fn acknowledge(&mut self, through: &Position) -> Result<(), SourceError> {
        self.rows.acknowledge(through).map_err(|trouble| self.trouble(trouble))
    }
}
