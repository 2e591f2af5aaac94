//! Writes record batches as Parquet, or as an Arrow file or stream.

use std::error::Error;
use std::io::{self, BufWriter, Write};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use fairstream_core::{BadOption, Cause, OptionDoc, Options, SinkError, catch_panic};
use fairstream_files::Output;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::WriterProperties;

/// Output format.
#[derive(Clone, Debug)]
pub(crate) enum TableFormat {
    Parquet(Box<WriterProperties>),
    ArrowFile(IpcWriteOptions),
    ArrowStream(IpcWriteOptions),
}

pub(crate) const PARQUET_OPTIONS: &[OptionDoc] = &[
    OptionDoc {
        name: "codec",
        default: "zstd",
        help: "how columns are compressed: zstd, snappy, gzip, lz4, none",
    },
    OptionDoc { name: "row_group", default: "131072", help: "rows in a row group at most" },
];

pub(crate) const ARROW_OPTIONS: &[OptionDoc] = &[
    OptionDoc { name: "codec", default: "none", help: "how columns are compressed: zstd, lz4, none" },
    OptionDoc {
        name: "format",
        default: "file",
        help: "`stream` can be read while it is written; the default of .arrows and `-`",
    },
];

impl TableFormat {
    pub(crate) fn parquet(options: &Options) -> Result<TableFormat, BadOption> {
        let codec = match options.text("codec").unwrap_or("zstd") {
            "zstd" => Compression::ZSTD(ZstdLevel::default()),
            "snappy" => Compression::SNAPPY,
            "gzip" => Compression::GZIP(GzipLevel::default()),
            "lz4" => Compression::LZ4_RAW,
            "none" => Compression::UNCOMPRESSED,
            other => return Err(unknown("codec", other, "zstd, snappy, gzip, lz4, none")),
        };
        let rows: usize = options.parse("row_group", 131_072)?;
        if rows == 0 {
            return Err(unknown("row_group", "0", "whole numbers from 1 on"));
        }
        let properties =
            WriterProperties::builder().set_compression(codec).set_max_row_group_row_count(Some(rows));
        Ok(TableFormat::Parquet(Box::new(properties.build())))
    }

    pub(crate) fn arrow(options: &Options, location: &str) -> Result<TableFormat, BadOption> {
        let codec = match options.text("codec").unwrap_or("none") {
            "zstd" => Some(CompressionType::ZSTD),
            "lz4" => Some(CompressionType::LZ4_FRAME),
            "none" => None,
            other => return Err(unknown("codec", other, "zstd, lz4, none")),
        };
        let settings = IpcWriteOptions::default()
            .try_with_compression(codec)
            .map_err(|error| unknown("codec", options.text("codec").unwrap_or("none"), &error.to_string()))?;
        let streams = location == "-" || location.to_lowercase().ends_with(".arrows");
        match options.text("format").unwrap_or(if streams { "stream" } else { "file" }) {
            "stream" => Ok(TableFormat::ArrowStream(settings)),
            "file" => Ok(TableFormat::ArrowFile(settings)),
            other => Err(unknown("format", other, "file, stream")),
        }
    }
}

fn unknown(key: &str, value: &str, known: &str) -> BadOption {
    BadOption::Value { key: key.to_owned(), value: value.to_owned(), reason: format!("there are {known}") }
}

/// Writes rows of one schema.
pub(crate) struct TableWriter {
    name: String,
    schema: SchemaRef,
    state: TableState,
}

enum TableState {
    /// Nothing has been written; a file that exists is unchanged.
    Waiting(Box<(Output, TableFormat)>),
    Parquet(Box<ArrowWriter<Output>>),
    File(Box<FileWriter<BufWriter<Output>>>),
    Stream(Box<StreamWriter<BufWriter<Output>>>),
    /// Writing has failed and cannot continue.
    Broken,
}

impl TableWriter {
    /// Opens a path, or standard output for `-`. A file that exists is replaced at the first write or at
    /// the end.
    pub(crate) fn open(
        location: &str,
        format: TableFormat,
        schema: SchemaRef,
    ) -> Result<TableWriter, SinkError> {
        let output = Output::open(location)?;
        let name = output.name().to_owned();
        Ok(TableWriter { name, schema, state: TableState::Waiting(Box::new((output, format))) })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Writes rows. When it returns, a stream can be read up to here.
    pub(crate) fn write(&mut self, rows: &RecordBatch) -> Result<(), SinkError> {
        /// Maximum size of a row group, which is buffered in memory until it is complete.
        const MAX_GROUP: usize = 32 << 20;
        self.guarded(|state| match state {
            TableState::Parquet(writer) => {
                writer.write(rows)?;
                if writer.in_progress_size() > MAX_GROUP {
                    writer.flush()?;
                }
                Ok(())
            }
            TableState::File(writer) => Ok(writer.write(rows)?),
            TableState::Stream(writer) => {
                writer.write(rows)?;
                Ok(writer.flush()?)
            }
            TableState::Waiting(_) | TableState::Broken => Err("it was not begun".into()),
        })
    }

    /// Makes the rows of a stream durable. A file is not complete before its end.
    pub(crate) fn sync(&mut self) -> Result<(), SinkError> {
        match &mut self.state {
            TableState::Stream(writer) => writer.get_mut().get_mut().sync().map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Writes the footer or the end of the stream, and makes everything durable.
    pub(crate) fn finish(mut self) -> Result<(), SinkError> {
        self.guarded(|state| {
            let mut output = match std::mem::replace(state, TableState::Broken) {
                TableState::Parquet(writer) => writer.into_inner()?,
                TableState::File(mut writer) => {
                    writer.finish()?;
                    writer.into_inner()?.into_inner().map_err(io::IntoInnerError::into_error)?
                }
                TableState::Stream(mut writer) => {
                    writer.finish()?;
                    writer.into_inner()?.into_inner().map_err(io::IntoInnerError::into_error)?
                }
                TableState::Waiting(_) => return Err("it was not begun".into()),
                // The error has already been reported.
                TableState::Broken => return Ok(()),
            };
            output.flush()?;
            output.sync()?;
            Ok(())
        })
    }

    /// Opens the output if necessary, and then runs `work` on it.
    fn guarded(&mut self, work: impl FnOnce(&mut TableState) -> Result<(), Cause>) -> Result<(), SinkError> {
        let (state, schema) = (&mut self.state, &self.schema);
        let done = catch_panic(|| {
            begin(state, schema)?;
            work(state)
        });
        let done = done.unwrap_or_else(|panic| Err(panic.into()));
        done.map_err(|cause| match (cause.downcast::<SinkError>(), &self.name) {
            (Ok(error), _) => *error,
            (Err(cause), name) => match system_error(&*cause) {
                Some(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    SinkError::HungUp { sink: name.clone() }
                }
                // Without the context that intermediate layers have added.
                Some(error) => SinkError::Write { sink: name.clone(), cause: error.to_string().into() },
                None => SinkError::Write { sink: name.clone(), cause },
            },
        })
    }
}

fn begin(state: &mut TableState, schema: &SchemaRef) -> Result<(), Cause> {
    if !matches!(state, TableState::Waiting(_)) {
        return Ok(());
    }
    let TableState::Waiting(waiting) = std::mem::replace(state, TableState::Broken) else { return Ok(()) };
    let (output, format) = *waiting;
    *state = match format {
        TableFormat::Parquet(properties) => TableState::Parquet(Box::new(ArrowWriter::try_new(
            output,
            SchemaRef::clone(schema),
            Some(*properties),
        )?)),
        TableFormat::ArrowFile(options) => {
            let writer = FileWriter::try_new_with_options(BufWriter::new(output), schema, options)?;
            TableState::File(Box::new(writer))
        }
        TableFormat::ArrowStream(options) => {
            let mut writer = StreamWriter::try_new_with_options(BufWriter::new(output), schema, options)?;
            // The reader of a stream waits for the schema.
            writer.flush()?;
            TableState::Stream(Box::new(writer))
        }
    };
    Ok(())
}

/// The system error in a chain of errors, if there is one.
fn system_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a io::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error);
        }
        next = error.source();
    }
    None
}
