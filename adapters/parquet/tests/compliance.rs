//! The sources and sinks fulfil the contracts of `Source` and `Sink`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::thread;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Float32Array, Int64Array, RecordBatch, StringArray, StructArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field};
use arrow::ipc::reader::{FileReader, StreamReader};
use arrow::ipc::writer::{FileWriter, StreamWriter};
use arrow::util::display::array_value_to_string;
use fairstream_core::compliance::{BadInput, LiveInput, SinkCase, SourceCase, check_sink, check_source};
use fairstream_core::{SinkRequest, SourceFactory, SourceRequest, WantedColumn};
use fairstream_parquet::{ArrowSinks, ArrowSources, ParquetSinks, ParquetSources};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::FileReader as _;
use parquet::file::serialized_reader::SerializedFileReader;

fn request(location: &Path) -> SourceRequest {
    SourceRequest {
        location: location.to_str().unwrap().to_owned(),
        wanted: vec![
            WantedColumn::new("applicant.gender", DataType::Utf8),
            WantedColumn::new("id", DataType::UInt8),
            WantedColumn::new("score", DataType::Float64),
            WantedColumn::new("accepted", DataType::Boolean),
            WantedColumn::new("elsewhere", DataType::Int64),
        ],
        ..SourceRequest::default()
    }
}

/// Rows at these seconds, with these ids.
fn rows(seconds: &[i64], ids: &[Option<i64>]) -> RecordBatch {
    let len = seconds.len();
    let time = TimestampMicrosecondArray::from_iter_values(seconds.iter().map(|second| second * 1_000_000));
    let gender: StringArray =
        (0..len).map(|row| (row % 3 != 2).then_some(["F", "M, or so"][row % 2])).collect();
    let nulls = (0..len).map(|row| row % 5 != 4).collect::<Vec<_>>().into();
    let field = Arc::new(Field::new("gender", DataType::Utf8, true));
    let applicant = StructArray::new(vec![field].into(), vec![Arc::new(gender)], Some(nulls));
    let score: Float32Array = (0..len).map(|row| (row % 4 != 1).then_some(row as f32 / 2.0)).collect();
    let accepted: BooleanArray = (0..len).map(|row| (row % 3 != 1).then_some(row % 2 == 0)).collect();
    RecordBatch::try_from_iter_with_nullable([
        ("unread", Arc::new(Int64Array::from(vec![1; len])) as ArrayRef, true),
        ("time", Arc::new(time), true),
        ("applicant", Arc::new(applicant), true),
        ("id", Arc::new(Int64Array::from(ids.to_vec())), true),
        ("score", Arc::new(score), true),
        ("accepted", Arc::new(accepted), true),
    ])
    .unwrap()
}

fn counted(seconds: &[i64]) -> RecordBatch {
    rows(seconds, &(0..seconds.len()).map(|row| (row != 3).then_some(row as i64)).collect::<Vec<_>>())
}

/// Writes a Parquet file with `group` rows per row group.
fn write_parquet(path: &Path, rows: &RecordBatch, group: usize) {
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(group)).build();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut writer =
        ArrowWriter::try_new(File::create(path).unwrap(), rows.schema(), Some(properties)).unwrap();
    writer.write(rows).unwrap();
    writer.close().unwrap();
}

/// Makes a column of the third row group unreadable.
fn damaged_parquet(path: &Path) -> SourceRequest {
    write_parquet(path, &counted(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), 3);
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let at = usize::try_from(reader.metadata().row_group(2).column(3).byte_range().0).unwrap();
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at..at + 16].fill(0xff);
    std::fs::write(path, bytes).unwrap();
    request(path)
}

const BAD: [Option<i64>; 5] = [Some(1), None, Some(300), Some(4), Some(5)];

#[test]
fn a_parquet_file_complies() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for group in [2, 100] {
        write_parquet(&at("good.parquet"), &counted(&[1, 2, 2, 5, 9, 9, 10]), group);
        write_parquet(&at("bad.parquet"), &rows(&[1, 2, 3, 4, 5], &BAD), group);
        check_source(&SourceCase {
            factory: &ParquetSources,
            good: request(&at("good.parquet")),
            rows: 7,
            bad: Some(BadInput { request: request(&at("bad.parquet")), row: 3, column: Some("id") }),
            missing: request(&at("missing.parquet")),
            cut_off: Some(damaged_parquet(&at("cut.parquet"))),
            live: None,
        });
    }
}

#[test]
fn a_tree_of_parquet_files_complies() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    write_parquet(&at("good/x=1/a.parquet"), &counted(&[1, 4, 4, 9, 12]), 2);
    write_parquet(&at("good/x=1/b.parquet"), &counted(&[2, 3, 4, 20]), 100);
    write_parquet(&at("good/x=2/c.parquet"), &counted(&[]), 1);
    write_parquet(&at("good/x=2/d.parquet"), &counted(&[30, 31]), 1);
    write_parquet(&at("bad/1.parquet"), &counted(&[1, 3]), 2);
    write_parquet(&at("bad/2.parquet"), &rows(&[2, 3, 3, 4, 5], &BAD), 2);
    write_parquet(&at("bad/3.parquet"), &counted(&[1, 2, 3, 4, 5]), 3);
    check_source(&SourceCase {
        factory: &ParquetSources,
        good: request(&at("good")),
        rows: 11,
        bad: Some(BadInput { request: request(&at("bad")), row: 5, column: Some("id") }),
        missing: request(&at("*.parquet")),
        cut_off: None,
        live: None,
    });
    check_source(&SourceCase {
        factory: &ParquetSources,
        good: by_row(request(&at("good"))),
        rows: 11,
        bad: Some(BadInput { request: by_row(request(&at("bad"))), row: 5, column: Some("id") }),
        missing: by_row(request(&at("*.parquet"))),
        cut_off: None,
        live: None,
    });
    let mut source = ParquetSources.open(&by_row(request(&at("bad")))).unwrap();
    let batches: Vec<_> = std::iter::from_fn(|| source.next_batch().unwrap()).collect();
    assert!(batches.iter().all(|batch| batch.relative));
    let times: Vec<i64> = batches.iter().flat_map(|batch| batch.times.to_vec()).collect();
    let expected = [1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12].map(|second| second * 1_000_000_000);
    assert_eq!(times, expected, "the bad row is counted");
    let batch = ParquetSources
        .open(&SourceRequest { wanted: Vec::new(), ..by_row(request(&at("good"))) })
        .unwrap()
        .next_batch()
        .unwrap()
        .unwrap();
    assert_eq!(batch.len(), 11, "rows without any column");
}

/// The same with rows in their order.
fn by_row(mut request: SourceRequest) -> SourceRequest {
    request.options.set("time", "row");
    request
}

fn write_arrow(path: &Path, batches: &[RecordBatch], stream: bool) {
    let file = File::create(path).unwrap();
    if stream {
        let mut writer = StreamWriter::try_new(file, &batches[0].schema()).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
    } else {
        let mut writer = FileWriter::try_new(file, &batches[0].schema()).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
    }
}

/// Makes the third batch unreadable.
fn damaged_arrow(path: &Path, stream: bool) -> SourceRequest {
    let batches = [counted(&[1, 2]), counted(&[3, 4]), counted(&[5, 6]), counted(&[7])];
    write_arrow(path, &batches, stream);
    let mut bytes = std::fs::read(path).unwrap();
    let marks: Vec<usize> =
        (0..bytes.len() - 8).step_by(8).filter(|at| bytes[*at..*at + 4] == [0xff; 4]).collect();
    let batch = marks[3];
    if stream {
        bytes.truncate(batch + 100);
    } else {
        bytes[batch + 8..batch + 24].fill(0xee);
    }
    std::fs::write(path, bytes).unwrap();
    request(path)
}

/// A named pipe with rows in it whose writer stays open and writes no more.
fn silent_pipe(dir: &Path) -> LiveInput {
    let path = dir.join(format!("pipe-{:?}.arrows", thread::current().id()));
    let _ = std::fs::remove_file(&path);
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let (keep_open, until) = mpsc::channel::<()>();
    let write_to = path.clone();
    thread::spawn(move || {
        let pipe = File::options().write(true).open(write_to).unwrap();
        let rows = counted(&[1, 2]);
        let mut writer = StreamWriter::try_new(pipe, &rows.schema()).unwrap();
        writer.write(&rows).unwrap();
        writer.get_mut().write_all(&[0xff, 0xff, 0xff, 0xff, 0x20, 0x01]).unwrap();
        let _ = until.recv();
    });
    LiveInput { request: request(&path), ready: 2, writer: Box::new(keep_open) }
}

#[test]
fn arrow_files_and_streams_comply() {
    for stream in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(format!("{name}.arrow"));
        let good = [counted(&[1, 2, 2]), counted(&[]), counted(&[5]), counted(&[9, 9, 10])];
        write_arrow(&at("good"), &good, stream);
        write_arrow(&at("bad"), &[rows(&[1, 2], &BAD[..2]), rows(&[3, 4, 5], &BAD[2..])], stream);
        let live = || silent_pipe(dir.path());
        check_source(&SourceCase {
            factory: &ArrowSources,
            good: request(&at("good")),
            rows: 7,
            bad: Some(BadInput { request: request(&at("bad")), row: 3, column: Some("id") }),
            missing: request(&at("missing")),
            cut_off: Some(damaged_arrow(&at("cut"), stream)),
            live: if stream { Some(&live) } else { None },
        });
        let live = || {
            let live = silent_pipe(dir.path());
            LiveInput { request: by_row(live.request), ..live }
        };
        check_source(&SourceCase {
            factory: &ArrowSources,
            good: by_row(request(&at("good"))),
            rows: 7,
            bad: Some(BadInput { request: by_row(request(&at("bad"))), row: 3, column: Some("id") }),
            missing: by_row(request(&at("missing"))),
            cut_off: Some(by_row(damaged_arrow(&at("cut"), stream))),
            live: if stream { Some(&live) } else { None },
        });
        let request = SourceRequest { wanted: Vec::new(), ..by_row(request(&at("good"))) };
        let mut source = ArrowSources.open(&request).unwrap();
        let rows: usize = std::iter::from_fn(|| source.next_batch().unwrap()).map(|batch| batch.len()).sum();
        assert_eq!(rows, 7, "rows without any column");
    }
}

/// Verdicts as text.
fn lines(batches: impl Iterator<Item = RecordBatch>) -> Vec<String> {
    let line = |rows: &RecordBatch, row: usize| {
        let value = |column: &ArrayRef| {
            let column = match column.data_type() {
                DataType::Timestamp(..) => arrow::compute::cast(column, &DataType::Int64).unwrap(),
                _ => Arc::clone(column),
            };
            if column.is_null(row) { "∅".to_owned() } else { array_value_to_string(&column, row).unwrap() }
        };
        rows.columns().iter().map(value).collect::<Vec<_>>().join("|")
    };
    batches.flat_map(|rows| (0..rows.num_rows()).map(|row| line(&rows, row)).collect::<Vec<_>>()).collect()
}

fn sink_request(path: &Path) -> SinkRequest {
    SinkRequest { location: path.to_str().unwrap().to_owned(), ..SinkRequest::default() }
}

#[test]
fn the_parquet_sink_complies() {
    let dir = tempfile::tempdir().unwrap();
    for codec in ["zstd", "snappy", "gzip", "lz4", "none"] {
        let mut request = sink_request(&dir.path().join("verdicts.parquet"));
        request.options.set("codec", codec);
        request.options.set("row_group", "7");
        check_sink(&SinkCase {
            factory: &ParquetSinks,
            request,
            readable_while_open: false,
            forbidden: sink_request(Path::new("/no/such/place/verdicts.parquet")),
            read: &|path| {
                let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
                lines(builder.build().unwrap().map(Result::unwrap))
            },
        });
    }
}

#[test]
fn the_arrow_sinks_comply() {
    let dir = tempfile::tempdir().unwrap();
    for codec in ["none", "zstd", "lz4"] {
        for ending in ["arrow", "arrows"] {
            let mut request = sink_request(&dir.path().join("verdicts").with_extension(ending));
            request.options.set("codec", codec);
            check_sink(&SinkCase {
                factory: &ArrowSinks,
                request,
                readable_while_open: ending == "arrows",
                forbidden: sink_request(Path::new("/no/such/place/verdicts.arrow")),
                read: &|path| {
                    let file = File::open(path).unwrap();
                    if path.ends_with(".arrows") {
                        lines(StreamReader::try_new(file, None).unwrap().map(Result::unwrap))
                    } else {
                        lines(FileReader::try_new(file, None).unwrap().map(Result::unwrap))
                    }
                },
            });
        }
    }
}
