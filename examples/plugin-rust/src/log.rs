//! A source for logs like `12.5 id=7 gender=F`: the time in seconds, then names and values.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use fairstream_core::{
    Adapter, EventBatch, OptionDoc, Position, RejectedRow, Source, SourceContext, SourceError, SourceFactory,
    SourceRequest, TimeFormat, TimeReader,
};

/// Opens logs.
#[derive(Clone, Copy, Debug)]
pub struct LogSources;

impl SourceFactory for LogSources {
    fn adapter(&self) -> Adapter {
        Adapter {
            name: "log",
            about: "a log like `12.5 id=7 gender=F`",
            extensions: &[],
            options: &[OptionDoc { name: "file", default: "decisions.log", help: "the log to read" }],
        }
    }

    fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, SourceError> {
        let path = request.options.text("file").unwrap_or("decisions.log").to_owned();
        let failed = |cause: fairstream_core::Cause| SourceError::Open { origin: path.clone(), cause };
        let file = File::open(&path).map_err(|error| failed(error.into()))?;
        // It offers integers and texts; columns of other types are treated as missing.
        let is_known = |data_type: &DataType| matches!(data_type, DataType::UInt64 | DataType::Utf8);
        let fields = request.wanted.iter().filter(|wanted| is_known(&wanted.data_type));
        let fields: Vec<Field> =
            fields.map(|wanted| Field::new(&wanted.name, wanted.data_type.clone(), true)).collect();
        let mut log = Log {
            lines: BufReader::new(file),
            path: path.clone(),
            schema: Arc::new(Schema::new(fields)),
            context: request.context.clone(),
            time: TimeReader::new(TimeFormat::Relative),
            line: 0,
        };
        if let Some(position) = &request.resume {
            if *position.resume != *RESUME {
                return Err(failed("the position is not one of a log".into()));
            }
            // The lines before the position are read again, as this is a small example.
            while log.line < position.rows {
                let line = log.read_line().map_err(|error| failed(error.into()))?;
                line.ok_or_else(|| failed("it is shorter than it was when it was read before".into()))?;
            }
        }
        Ok(Box::new(log))
    }
}

/// A position of a log is the number of its line, with this marker.
const RESUME: &[u8] = b"line";

struct Log {
    lines: BufReader<File>,
    path: String,
    schema: SchemaRef,
    context: SourceContext,
    time: TimeReader,
    line: u64,
}

impl Log {
    fn read_line(&mut self) -> std::io::Result<Option<String>> {
        let mut text = String::new();
        if self.lines.read_line(&mut text)? == 0 {
            return Ok(None);
        }
        self.line += 1;
        Ok(Some(text))
    }

    /// The time of a line, and the value of each column.
    fn decode(&mut self, text: &str) -> Result<(i64, Vec<Option<String>>), RejectedRow> {
        let row = self.line;
        let bad = |column: Option<&str>, reason: String| RejectedRow {
            row,
            column: column.map(str::to_owned),
            reason,
        };
        let mut words = text.split_whitespace();
        let time = self.time.read(words.next().unwrap_or_default());
        let time = time.map_err(|error| bad(Some("time"), error.to_string()))?;
        let mut values = vec![None; self.schema.fields().len()];
        for word in words {
            let (key, value) =
                word.split_once('=').ok_or_else(|| bad(None, format!("`{word}` is not KEY=VALUE")))?;
            let Some(column) = self.schema.index_of(key).ok() else { continue };
            let is_number = self.schema.field(column).data_type() == &DataType::UInt64;
            if is_number && value.parse::<u64>().is_err() {
                return Err(bad(Some(key), format!("`{value}` is not a UInt64")));
            }
            values[column] = Some(value.to_owned());
        }
        Ok((time.0, values))
    }
}

impl Source for Log {
    fn name(&self) -> &str {
        &self.path
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>, SourceError> {
        let (mut times, mut numbers, mut rejected, mut values) = (vec![], vec![], vec![], vec![]);
        let failed = |row: u64, path: &str, cause: fairstream_core::Cause| SourceError::Read {
            origin: path.to_owned(),
            row,
            cause,
        };
        while times.len() + rejected.len() < self.context.max_rows.get() && !self.context.stop.is_stopped() {
            let line = self.read_line().map_err(|error| failed(self.line, &self.path, error.into()))?;
            let Some(line) = line else { break };
            match self.decode(&line) {
                Ok((time, row)) => {
                    times.push(time);
                    numbers.push(self.line);
                    values.push(row);
                }
                Err(bad) => rejected.push(bad),
            }
        }
        if times.is_empty() && rejected.is_empty() {
            return Ok(None);
        }
        let column = |(index, field): (usize, &Arc<Field>)| -> ArrayRef {
            let texts = values.iter().map(|row| row[index].as_deref());
            match field.data_type() {
                DataType::UInt64 => {
                    let numbers = texts.map(|text| text.and_then(|text| text.parse().ok()));
                    Arc::new(numbers.collect::<UInt64Array>())
                }
                _ => Arc::new(texts.collect::<StringArray>()),
            }
        };
        let columns = self.schema.fields().iter().enumerate().map(column).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(times.len()));
        let rows = RecordBatch::try_new_with_options(self.schema(), columns, &options)
            .map_err(|error| failed(self.line, &self.path, error.into()))?;
        let end = Position { rows: self.line, resume: RESUME.into() };
        let mut batch = EventBatch::new(rows, times, numbers, end);
        (batch.rejected, batch.relative) = (rejected, true);
        Ok(Some(batch))
    }
}
