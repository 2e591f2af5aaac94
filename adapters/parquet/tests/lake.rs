//! Many files as one source: their columns, their order, and positions.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::fs::File;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampSecondArray};
use arrow::datatypes::DataType;
use fairstream_core::{Options, Source, SourceFactory, SourceRequest, Time, TimeRange, WantedColumn};
use fairstream_parquet::ParquetSources;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;

fn request(location: &Path) -> SourceRequest {
    let location = location.to_str().unwrap().to_owned();
    let wanted = vec![WantedColumn::new("id", DataType::Int64)];
    SourceRequest { location, wanted, ..SourceRequest::default() }
}

/// Writes a file of row groups with two rows each, whose ids are their seconds.
fn write(path: &Path, seconds: &[i64]) {
    write_with(
        path,
        Arc::new(TimestampSecondArray::from(seconds.to_vec())),
        seconds,
        EnabledStatistics::Chunk,
    );
}

fn write_with(path: &Path, time: ArrayRef, ids: &[i64], statistics: EnabledStatistics) {
    let id = Arc::new(Int64Array::from(ids.to_vec()));
    let unread = Arc::new(StringArray::from(vec!["unread"; ids.len()]));
    let columns: [(&str, ArrayRef); 3] = [("time", time), ("id", id), ("unread", unread)];
    let rows = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(2))
        .set_statistics_enabled(statistics)
        .build();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut writer =
        ArrowWriter::try_new(File::create(path).unwrap(), rows.schema(), Some(properties)).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
}

/// Makes a column of a row group unreadable.
fn damage(path: &Path, group: usize, column: usize) {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let at = usize::try_from(reader.metadata().row_group(group).column(column).byte_range().0).unwrap();
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at..at + 16].fill(0xff);
    std::fs::write(path, bytes).unwrap();
}

/// The ids of all rows, in the order in which they are returned.
fn ids(source: &mut dyn Source) -> Result<Vec<i64>, String> {
    let mut ids = Vec::new();
    while let Some(events) = source.next_batch().map_err(|error| error.to_string())? {
        assert!(events.rejected.is_empty(), "{:?}", events.rejected);
        let column = events.rows.column(0).as_any().downcast_ref::<Int64Array>().unwrap();
        ids.extend(column.values());
    }
    Ok(ids)
}

fn read(request: &SourceRequest) -> Result<Vec<i64>, String> {
    ids(&mut *ParquetSources.open(request).map_err(|error| error.to_string())?)
}

fn seconds(since: Option<i64>, until: Option<i64>) -> TimeRange {
    let time = |seconds: i64| Time(seconds * 1_000_000_000);
    TimeRange { since: since.map(time), until: until.map(time) }
}

#[test]
fn what_is_outside_of_the_span_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    write(&at("a.parquet"), &[1, 2, 3, 4, 5, 6]);
    write(&at("b.parquet"), &[7, 8]);
    damage(&at("a.parquet"), 0, 0);
    damage(&at("a.parquet"), 2, 1);
    damage(&at("b.parquet"), 0, 1);
    let read = |time_range| read(&SourceRequest { time_range, ..request(dir.path()) });
    assert_eq!(read(seconds(Some(3), Some(4))), Ok(vec![3, 4]));
    assert_eq!(read(seconds(Some(9), None)), Ok(vec![]));
    let error = read(seconds(Some(3), Some(5))).unwrap_err();
    assert!(error.contains("a.parquet after row 4: "), "{error}");
}

#[test]
fn columns_that_are_not_wanted_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    write(&path, &[1, 2, 3]);
    damage(&path, 0, 2);
    damage(&path, 1, 2);
    assert_eq!(read(&request(&path)), Ok(vec![1, 2, 3]));
}

#[test]
fn a_time_in_the_name_of_a_folder_is_that_of_all_rows() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    write(&at("day=2026-01-02/a.parquet"), &[3, 4]);
    write(&at("day=2026-01-01/b.parquet"), &[1, 2]);
    write(&at("day=2026-01-03/b.parquet"), &[5]);
    damage(&at("day=2026-01-03/b.parquet"), 0, 1);
    let options: Options = [("time", "day")].into_iter().collect();
    let until = Some("2026-01-02".parse().unwrap());
    let time_range = TimeRange { since: None, until };
    assert_eq!(read(&SourceRequest { options, time_range, ..request(dir.path()) }), Ok(vec![1, 2, 3, 4]));
}

/// With and without statistics, for time types that have usable statistics and for those that have none.
#[test]
fn files_that_overlap_are_merged_and_ties_are_in_order_of_the_paths() {
    let files: [&[i64]; 5] = [&[4, 5, 5, 9], &[1, 5, 6], &[20, 21], &[5, 20], &[]];
    let mut expected: Vec<(i64, usize)> = files
        .iter()
        .enumerate()
        .flat_map(|(file, seconds)| seconds.iter().map(move |s| (*s, file)))
        .collect();
    expected.sort();
    let expected: Vec<i64> = expected.into_iter().map(|(second, file)| second * 10 + file as i64).collect();
    for statistics in [EnabledStatistics::Chunk, EnabledStatistics::None] {
        for kind in ["timestamp", "number", "text"] {
            let dir = tempfile::tempdir().unwrap();
            for (file, seconds) in files.iter().enumerate() {
                let time: ArrayRef = match kind {
                    "timestamp" => Arc::new(TimestampSecondArray::from(seconds.to_vec())),
                    "number" => Arc::new(Int64Array::from(seconds.to_vec())),
                    _ => Arc::new(StringArray::from_iter_values(seconds.iter().map(i64::to_string))),
                };
                let ids: Vec<i64> = seconds.iter().map(|second| second * 10 + file as i64).collect();
                write_with(&dir.path().join(format!("{file}.parquet")), time, &ids, statistics);
            }
            assert_eq!(read(&request(dir.path())), Ok(expected.clone()), "{kind} {statistics:?}");
        }
    }
}

#[test]
fn columns_may_be_in_some_files_only() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("a.parquet"), &[1]);
    let time: ArrayRef = Arc::new(TimestampSecondArray::from(vec![2]));
    let rows = RecordBatch::try_from_iter([("time", time)]).unwrap();
    let file = File::create(dir.path().join("b.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, rows.schema(), None).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
    let mut source = ParquetSources.open(&request(dir.path())).unwrap();
    let events = source.next_batch().unwrap().unwrap();
    assert_eq!((events.len(), events.rows.column(0).null_count()), (2, 1));
}

#[test]
fn a_position_survives_new_files_but_not_other_ones() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| -> PathBuf { dir.path().join(name) };
    write(&at("1.parquet"), &[1, 2]);
    write(&at("2.parquet"), &[3, 4]);
    let mut small = request(dir.path());
    small.context.max_rows = NonZeroUsize::new(3).unwrap();
    let mut source = ParquetSources.open(&small).unwrap();
    let position = source.next_batch().unwrap().unwrap().end;
    let resumed = SourceRequest { resume: Some(position), ..small.clone() };
    write(&at("0.parquet"), &[5, 6]);
    let mut source = ParquetSources.open(&resumed).unwrap();
    let times: Vec<i64> = source.next_batch().unwrap().unwrap().times.to_vec();
    assert_eq!(times, [4_000_000_000, 5_000_000_000, 6_000_000_000]);
    write(&at("1.parquet"), &[1, 2, 2]);
    let error = ParquetSources.open(&resumed).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("the files are not those that were read before"), "{error}");
}

/// More files than are open at once: some are spilled to disk.
#[test]
fn hundreds_of_files_may_overlap() {
    const FILES: i64 = 150;
    let dir = tempfile::tempdir().unwrap();
    let at = |file: i64| dir.path().join(format!("{file:03}.parquet"));
    for file in 0..FILES {
        write(&at(file), &[file, file + FILES, file + 2 * FILES]);
    }
    let all: Vec<i64> = (0..3 * FILES).collect();
    let request = request(dir.path());
    assert_eq!(read(&request), Ok(all.clone()));
    let mut small = request.clone();
    small.context.max_rows = NonZeroUsize::new(7).unwrap();
    let mut source = ParquetSources.open(&small).unwrap();
    let mut given = 0;
    while let Some(events) = source.next_batch().unwrap() {
        let before = given;
        given += events.len();
        // Only for some positions, as each requires opening all files again.
        if before / 100 != given / 100 {
            let resumed = SourceRequest { resume: Some(events.end.clone()), ..small.clone() };
            assert_eq!(read(&resumed), Ok(all[given..].to_vec()), "after {given} rows");
        }
    }
    assert_eq!(given, all.len());
    // The third row of the last file, which is one of those that are spilled.
    damage(&at(FILES - 1), 1, 1);
    let mut source = ParquetSources.open(&request).unwrap();
    let mut given = 0;
    let error = loop {
        match source.next_batch() {
            Ok(events) => given += events.unwrap().len(),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("149.parquet after row 2: "), "{error}");
    assert_eq!(given, 300, "rows before the error are given");
}

/// Rows that are left out after a restart end within a page, whose header is then read without its values. Here these values
/// look like a header with a list that is too long.
#[test]
fn values_of_a_page_are_not_taken_for_a_header() {
    const ROWS: i64 = 100;
    let trap = i64::from_le_bytes([0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 7, 0]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trap.parquet");
    let columns: [(&str, ArrayRef, bool); 2] = [
        ("time", Arc::new(TimestampSecondArray::from_iter_values(0..ROWS)), false),
        ("id", Arc::new(Int64Array::from_iter_values((0..ROWS).map(|_| trap))), false),
    ];
    let rows = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_data_page_row_count_limit(10)
        .set_write_batch_size(10)
        .build();
    let mut writer =
        ArrowWriter::try_new(File::create(&path).unwrap(), rows.schema(), Some(properties)).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
    let mut small = request(&path);
    small.context.max_rows = NonZeroUsize::new(7).unwrap();
    let mut source = ParquetSources.open(&small).unwrap();
    let mut given = 0;
    while let Some(events) = source.next_batch().unwrap() {
        given += events.len();
        let resumed = SourceRequest { resume: Some(events.end), ..small.clone() };
        assert_eq!(read(&resumed), Ok(vec![trap; ROWS as usize - given]), "after {given} rows");
    }
    assert_eq!(given as i64, ROWS);
}
