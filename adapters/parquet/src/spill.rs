//! Spills rows to disk. An open Parquet file keeps a page of every column in memory, which is too much where
//! hundreds of files overlap in time: beyond a limit, the requested columns of a file are written to a temporary
//! file, which can be read in small batches.

use std::fs::File;
use std::io::{BufReader, BufWriter, Seek, SeekFrom};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, RecordBatch, RecordBatchOptions, StringArray, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, UInt64Type};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use fairstream_core::{Cause, RejectedRow};
use fairstream_files::Chunk;

/// Rows per batch when they are read again.
const ROWS: usize = 1024;

/// Columns in addition to those of the rows: time, row number, and the column and reason of a rejection.
const MORE: usize = 4;

/// Rows that are being written to disk.
pub(crate) struct Spill {
    schema: SchemaRef,
    writer: StreamWriter<BufWriter<File>>,
}

impl Spill {
    pub(crate) fn begin(schema: &Schema) -> Result<Spill, Cause> {
        let mut fields: Vec<Field> = schema.fields().iter().map(|field| (**field).clone()).collect();
        fields.push(Field::new("time", DataType::Int64, false));
        fields.push(Field::new("row", DataType::UInt64, false));
        fields.push(Field::new("reason", DataType::Utf8, true));
        fields.push(Field::new("column", DataType::Utf8, true));
        let schema = Arc::new(Schema::new(fields));
        let file = tempfile::tempfile().map_err(no_room)?;
        let writer = StreamWriter::try_new(BufWriter::new(file), &schema).map_err(no_room)?;
        Ok(Spill { schema, writer })
    }

    pub(crate) fn add(&mut self, chunk: &Chunk) -> Result<(), Cause> {
        let len = chunk.rows.num_rows();
        let (mut reasons, mut columns): (Vec<Option<&str>>, Vec<Option<&str>>) =
            (vec![None; len], vec![None; len]);
        for (index, bad) in &chunk.rejected {
            reasons[*index] = Some(&bad.reason);
            columns[*index] = bad.column.as_deref();
        }
        let mut all = chunk.rows.columns().to_vec();
        let more: [ArrayRef; MORE] = [
            Arc::new(Int64Array::new(chunk.times.clone(), None)),
            Arc::new(UInt64Array::new(chunk.numbers.clone(), None)),
            Arc::new(StringArray::from(reasons)),
            Arc::new(StringArray::from(columns)),
        ];
        all.extend(more);
        let rows = RecordBatch::try_new(Arc::clone(&self.schema), all)?;
        for start in (0..len).step_by(ROWS) {
            self.writer.write(&rows.slice(start, ROWS.min(len - start))).map_err(no_room)?;
        }
        Ok(())
    }

    /// Ends writing, and opens the rows for reading.
    pub(crate) fn finish(mut self) -> Result<Spilled, Cause> {
        self.writer.finish().map_err(no_room)?;
        let mut file = self.writer.into_inner()?.into_inner().map_err(|error| no_room(error.into_error()))?;
        file.seek(SeekFrom::Start(0))?;
        Ok(Spilled(Box::new(StreamReader::try_new(BufReader::new(file), None)?)))
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

/// Rows on disk.
pub(crate) struct Spilled(Box<StreamReader<BufReader<File>>>);

impl Spilled {
    /// The next rows; `None` at the end.
    pub(crate) fn next_chunk(&mut self, schema: &SchemaRef) -> Result<Option<Chunk>, Cause> {
        let Some(rows) = self.0.next().transpose()? else { return Ok(None) };
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
