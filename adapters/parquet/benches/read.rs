//! Compares the speed of the sources with the readers of arrow-rs that they are built on, on the same files:
//! `cargo bench -p fairstream-parquet --bench read [-- ROWS]`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark says what it found, or nothing")]

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{
    ArrayRef, Float64Array, RecordBatch, StringArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow::datatypes::DataType;
use arrow::ipc::reader::{FileReader, StreamReader};
use arrow::ipc::writer::{FileWriter, StreamWriter};
use fairstream_core::{SourceFactory, SourceRequest, WantedColumn};
use fairstream_parquet::{ArrowSources, ParquetSources};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

const BATCH: usize = 8192;

/// Columns that are read, and two that are not.
fn rows(first: usize) -> RecordBatch {
    let rows = || first..first + BATCH;
    let time = TimestampMicrosecondArray::from_iter_values(rows().map(|row| row as i64 * 1_000));
    let id: UInt64Array = rows().map(|row| (row % 3 != 2).then_some(row as u64)).collect();
    let gender: StringArray =
        rows().map(|row| (row % 3 != 2).then_some(["F", "M", "X"][row % 7 % 3])).collect();
    let accepted: UInt64Array = rows().map(|row| (row % 3 == 2).then_some(row as u64 - 1)).collect();
    let score = Float64Array::from_iter_values(rows().map(|row| (row * 7919 % 10_007) as f64));
    let note = StringArray::from_iter_values(rows().map(|row| format!("note {}", row * 7919 % 10_007)));
    RecordBatch::try_from_iter([
        ("time", Arc::new(time) as ArrayRef),
        ("id", Arc::new(id)),
        ("gender", Arc::new(gender)),
        ("accepted", Arc::new(accepted)),
        ("score", Arc::new(score)),
        ("note", Arc::new(note)),
    ])
    .unwrap()
}

fn parquet(path: &Path, batches: usize, codec: Compression) {
    let properties = WriterProperties::builder().set_compression(codec).build();
    let mut writer =
        ArrowWriter::try_new(File::create(path).unwrap(), rows(0).schema(), Some(properties)).unwrap();
    (0..batches).for_each(|batch| writer.write(&rows(batch * BATCH)).unwrap());
    writer.close().unwrap();
}

/// Alternates between both readers, so that other load on the machine affects both; reports the best of each.
fn compare(name: &str, ours: impl Fn() -> usize, theirs: impl Fn() -> usize) {
    let timed = |read: &dyn Fn() -> usize| {
        let start = Instant::now();
        let rows = read();
        (start.elapsed().as_secs_f64(), rows)
    };
    let (mut best_ours, mut best_theirs, mut read) = (f64::INFINITY, f64::INFINITY, 0);
    for _ in 0..9 {
        let ((our_time, our_rows), (their_time, their_rows)) = (timed(&ours), timed(&theirs));
        assert_eq!(our_rows, their_rows);
        (best_ours, best_theirs, read) = (best_ours.min(our_time), best_theirs.min(their_time), our_rows);
    }
    let rate = |seconds: f64| read as f64 / seconds / 1e6;
    println!(
        "{name:<16} {:>7.1} M rows/s, arrow-rs {:>7.1}: {:.2} of it",
        rate(best_ours),
        rate(best_theirs),
        best_theirs / best_ours
    );
}

fn ours(factory: &dyn SourceFactory, path: &Path) -> usize {
    let wanted = vec![
        WantedColumn::new("id", DataType::UInt64),
        WantedColumn::new("gender", DataType::Utf8),
        WantedColumn::new("accepted", DataType::UInt64),
    ];
    let location = path.to_str().unwrap().to_owned();
    let mut source = factory.open(&SourceRequest { location, wanted, ..SourceRequest::default() }).unwrap();
    let mut rows = 0;
    while let Some(events) = source.next_batch().unwrap() {
        rows += events.len();
    }
    rows
}

fn theirs(batches: impl Iterator<Item = Result<RecordBatch, arrow::error::ArrowError>>) -> usize {
    batches.map(|batch| batch.unwrap().num_rows()).sum()
}

fn main() {
    let wanted: Option<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).next();
    let batches = wanted.unwrap_or(4_000_000).div_ceil(BATCH);
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let codecs = [
        ("none", Compression::UNCOMPRESSED),
        ("snappy", Compression::SNAPPY),
        ("zstd", Compression::ZSTD(ZstdLevel::default())),
        ("lz4", Compression::LZ4_RAW),
    ];
    for (name, codec) in codecs {
        let path = at("a.parquet");
        parquet(&path, batches, codec);
        let read = || {
            let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).unwrap()).unwrap();
            let mask = ProjectionMask::leaves(builder.parquet_schema(), 0..4);
            theirs(builder.with_projection(mask).with_batch_size(BATCH).build().unwrap())
        };
        compare(&format!("parquet {name}"), || ours(&ParquetSources, &path), read);
    }
    let path = at("a.arrow");
    let mut writer = FileWriter::try_new(File::create(&path).unwrap(), &rows(0).schema()).unwrap();
    (0..batches).for_each(|batch| writer.write(&rows(batch * BATCH)).unwrap());
    writer.finish().unwrap();
    let read = || theirs(FileReader::try_new(File::open(&path).unwrap(), Some(vec![0, 1, 2, 3])).unwrap());
    compare("arrow file", || ours(&ArrowSources, &path), read);
    let path = at("a.arrows");
    let mut writer = StreamWriter::try_new(File::create(&path).unwrap(), &rows(0).schema()).unwrap();
    (0..batches).for_each(|batch| writer.write(&rows(batch * BATCH)).unwrap());
    writer.finish().unwrap();
    let read = || theirs(StreamReader::try_new_buffered(File::open(&path).unwrap(), None).unwrap());
    compare("arrow stream", || ours(&ArrowSources, &path), read);
}
