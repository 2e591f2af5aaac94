//! Writes verdicts as Parquet and Arrow.

use fairstream_core::{
    Adapter, Position, RunEnd, Selection, Sink, SinkError, SinkFactory, SinkRequest, VerdictBatch,
    verdict_schema,
};

use crate::parts::TableOutput;
use crate::table::{ARROW_OPTIONS, PARQUET_OPTIONS, TableFormat};

/// Opens sinks that write verdicts as Parquet. The file can be read once the run has ended, however it
/// ended.
#[derive(Clone, Copy, Debug)]
pub struct ParquetSinks;

/// Opens sinks that write verdicts as Arrow IPC, as a file or as a stream.
#[derive(Clone, Copy, Debug)]
pub struct ArrowSinks;

impl SinkFactory for ParquetSinks {
    fn adapter(&self) -> Adapter {
        Adapter {
            name: "parquet",
            about: "verdicts as columns: a file, complete once the run has ended, or numbered files of a folder/, one a checkpoint",
            extensions: &["parquet"],
            options: PARQUET_OPTIONS,
        }
    }

    fn open(&self, request: &SinkRequest) -> Result<Box<dyn Sink>, SinkError> {
        open(request, TableFormat::parquet(&request.options))
    }
}

impl SinkFactory for ArrowSinks {
    fn adapter(&self) -> Adapter {
        Adapter {
            name: "arrow",
            about: "verdicts as Arrow IPC: a file (Feather), or a stream that can be read meanwhile",
            extensions: &["arrow", "feather", "arrows"],
            options: ARROW_OPTIONS,
        }
    }

    fn open(&self, request: &SinkRequest) -> Result<Box<dyn Sink>, SinkError> {
        open(request, TableFormat::arrow(&request.options, &request.location))
    }
}

fn open(
    request: &SinkRequest,
    format: Result<TableFormat, fairstream_core::BadOption>,
) -> Result<Box<dyn Sink>, SinkError> {
    let format = format.map_err(|bad| SinkError::Option { sink: request.location.clone(), bad })?;
    let output = TableOutput::open(&request.location, format, verdict_schema(), request.resume.as_ref())?;
    Ok(Box::new(TableSink { output, select: request.select }))
}

struct TableSink {
    output: TableOutput,
    select: Selection,
}

impl Sink for TableSink {
    fn name(&self) -> &str {
        self.output.name()
    }

    fn wants(&self) -> Selection {
        self.select
    }

    fn write(&mut self, batch: &VerdictBatch) -> Result<(), SinkError> {
        self.output.write(batch.rows())
    }

    /// A file without its footer cannot be continued, so there is no position.
    fn flush(&mut self) -> Result<Option<Position>, SinkError> {
        self.output.sync()?;
        Ok(None)
    }

    fn checkpoint(&mut self) -> Result<Option<Position>, SinkError> {
        self.output.checkpoint()
    }

    fn finish(self: Box<Self>, _end: &RunEnd) -> Result<(), SinkError> {
        self.output.finish()
    }
}
