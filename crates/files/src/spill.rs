//! Spills rows to disk. An open file keeps a descriptor, and blocks or pages of it in memory, which is too much where
//! thousands overlap in time: beyond a limit, the requested columns of a file are written to a temporary file, which all of
//! them share, and are read again in small pieces.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, RecordBatch, RecordBatchOptions, StringArray, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, UInt64Type};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use fairstream_core::{Cause, RejectedRow, SourceError};

use crate::merge::Chunk;

/// Maximum number of rows, and of bytes if it is more than one row, in a piece.
const ROWS: usize = 1024;
const BYTES: usize = 32 << 10;

/// Columns in addition to those of the rows: time, row number, and the column and reason of a rejection.
const MORE: usize = 4;

/// The temporary file with the rows of all files that are spilled.
#[derive(Debug, Default)]
pub(crate) struct Spill {
    file: Option<File>,
    /// Length of the file.
    end: u64,
    bytes: Vec<u8>,
}

/// The rows of one file that are spilled, as the extents of their pieces, and the error that followed them.
#[derive(Debug, Default)]
pub(crate) struct Spilled {
    pieces: VecDeque<(u64, usize)>,
    failure: Option<SourceError>,
    is_whole: bool,
}

impl Spilled {
    /// Whether all rows of the file have been written.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// All rows of the file have been written, and that error follows them.
    pub(crate) fn end(&mut self, failure: Option<SourceError>) {
        (self.is_whole, self.failure) = (true, failure);
    }

    /// The error that follows the rows.
    pub(crate) fn take_failure(&mut self) -> Option<SourceError> {
        self.failure.take()
    }
}

impl Spill {
    /// Writes rows of a file.
    pub(crate) fn write(&mut self, chunk: &Chunk, spilled: &mut Spilled) -> Result<(), Cause> {
        let len = chunk.rows.num_rows();
        let (mut reasons, mut columns): (Vec<Option<&str>>, Vec<Option<&str>>) =
            (vec![None; len], vec![None; len]);
        for (index, bad) in &chunk.rejected {
            reasons[*index] = Some(&bad.reason);
            columns[*index] = bad.column.as_deref();
        }
        let schema = chunk.rows.schema();
        let mut fields: Vec<Field> = schema.fields().iter().map(|field| (**field).clone()).collect();
        fields.push(Field::new("time", DataType::Int64, false));
        fields.push(Field::new("row", DataType::UInt64, false));
        fields.push(Field::new("reason", DataType::Utf8, true));
        fields.push(Field::new("column", DataType::Utf8, true));
        let mut all = chunk.rows.columns().to_vec();
        let more: [ArrayRef; MORE] = [
            Arc::new(Int64Array::new(chunk.times.clone(), None)),
            Arc::new(UInt64Array::new(chunk.numbers.clone(), None)),
            Arc::new(StringArray::from(reasons)),
            Arc::new(StringArray::from(columns)),
        ];
        all.extend(more);
        let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), all)?;
        let step = (BYTES / chunk.row_bytes().max(1)).clamp(1, ROWS);
        for start in (0..len).step_by(step) {
            self.write_piece(&rows.slice(start, step.min(len - start)), spilled)?;
        }
        Ok(())
    }

    fn write_piece(&mut self, rows: &RecordBatch, spilled: &mut Spilled) -> Result<(), Cause> {
        let mut writer = StreamWriter::try_new(std::mem::take(&mut self.bytes), &rows.schema())?;
        writer.write(rows)?;
        writer.finish()?;
        let mut bytes = writer.into_inner()?;
        if self.file.is_none() {
            self.file = Some(tempfile::tempfile().map_err(no_room)?);
        }
        if let Some(file) = &mut self.file {
            file.seek(SeekFrom::Start(self.end)).and_then(|_| file.write_all(&bytes)).map_err(no_room)?;
        }
        spilled.pieces.push_back((self.end, bytes.len()));
        self.end += bytes.len() as u64;
        bytes.clear();
        self.bytes = bytes;
        Ok(())
    }

    /// The next rows of a file, in its own schema; `None` at the end.
    pub(crate) fn read(&mut self, spilled: &mut Spilled, schema: &SchemaRef) -> Result<Option<Chunk>, Cause> {
        let Some((start, length)) = spilled.pieces.pop_front() else { return Ok(None) };
        let Some(file) = &mut self.file else { return Ok(None) };
        file.seek(SeekFrom::Start(start))?;
        self.bytes.resize(length, 0);
        file.read_exact(&mut self.bytes)?;
        let rows = StreamReader::try_new(self.bytes.as_slice(), None)?.next().transpose()?;
        self.bytes.clear();
        let Some(rows) = rows else { return Ok(None) };
        let own = rows.num_columns() - MORE;
        let numbers = rows.column(own + 1).as_primitive::<UInt64Type>().values().clone();
        let reasons = rows.column(own + 2).as_string::<i32>();
        let columns = rows.column(own + 3).as_string::<i32>();
        let rejected = (0..rows.num_rows()).filter(|row| reasons.is_valid(*row)).map(|row| {
            let column = columns.is_valid(row).then(|| columns.value(row).to_owned());
            (row, RejectedRow { row: numbers[row], column, reason: reasons.value(row).to_owned() })
        });
        let rejected = rejected.collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        Ok(Some(Chunk {
            times: rows.column(own).as_primitive::<Int64Type>().values().clone(),
            numbers,
            rejected,
            rows: RecordBatch::try_new_with_options(
                Arc::clone(schema),
                rows.columns()[..own].to_vec(),
                &options,
            )?,
        }))
    }
}

fn no_room(error: impl std::fmt::Display) -> Cause {
    let folder = std::env::temp_dir();
    format!(
        "so many files overlap in time that some have to wait in {}: {error}; set TMPDIR to another",
        folder.display()
    )
    .into()
}
