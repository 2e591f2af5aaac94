//! How values of each type are read, and what is refused or rejected.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, Date32Array, Date64Array, Decimal128Array,
    DictionaryArray, DurationMillisecondArray, FixedSizeBinaryArray, FixedSizeListArray, Float32Array,
    Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, LargeStringArray, NullArray, RecordBatch,
    StringArray, StringViewArray, StructArray, Time32SecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray, TimestampSecondArray, UInt64Array,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Fields, Int32Type};
use arrow::ipc::writer::FileWriter;
use arrow::util::display::array_value_to_string;
use fairstream_core::{Options, Source, SourceFactory, SourceRequest, WantedColumn};
use fairstream_parquet::{ArrowSources, ParquetSources};
use parquet::arrow::ArrowWriter;

fn write(path: &Path, rows: &RecordBatch) {
    let file = File::create(path).unwrap();
    if path.extension().unwrap() == "parquet" {
        let mut writer = ArrowWriter::try_new(file, rows.schema(), None).unwrap();
        writer.write(rows).unwrap();
        writer.close().unwrap();
    } else {
        let mut writer = FileWriter::try_new(file, &rows.schema()).unwrap();
        writer.write(rows).unwrap();
        writer.finish().unwrap();
    }
}

fn open(path: &Path, wanted: Vec<WantedColumn>, options: Options) -> Result<Box<dyn Source>, String> {
    let factory: &dyn SourceFactory =
        if path.extension().unwrap() == "parquet" { &ParquetSources } else { &ArrowSources };
    let location = path.to_str().unwrap().to_owned();
    factory
        .open(&SourceRequest { location, wanted, options, ..SourceRequest::default() })
        .map_err(|error| error.to_string())
}

/// Reads a column as a type, from an Arrow and from a Parquet file: the value of each row, or why it is rejected.
fn read(column: ArrayRef, wanted: &DataType) -> String {
    let dir = tempfile::tempdir().unwrap();
    let times: ArrayRef = Arc::new(Int64Array::from_iter_values(0..column.len() as i64));
    let rows =
        RecordBatch::try_from_iter_with_nullable([("time", times, false), ("x", column, true)]).unwrap();
    let texts = ["x.arrow", "x.parquet"].map(|name| {
        let path = dir.path().join(name);
        write(&path, &rows);
        let mut source =
            open(&path, vec![WantedColumn::new("x", wanted.clone())], Options::default()).unwrap();
        let schema = source.schema();
        if schema.field(0).data_type() != wanted {
            return format!("refused: {}", schema.field(0).data_type());
        }
        let mut texts = Vec::new();
        while let Some(events) = source.next_batch().unwrap() {
            let mut described: Vec<(u64, String)> =
                events.rejected.into_iter().map(|bad| (bad.row, format!("! {}", bad.reason))).collect();
            let column = events.rows.column(0);
            for (index, row) in events.row_numbers.iter().enumerate() {
                let text = if column.is_null(index) {
                    "∅".to_owned()
                } else {
                    array_value_to_string(column, index).unwrap()
                };
                described.push((*row, text));
            }
            described.sort();
            texts.extend(described.into_iter().map(|(_, text)| text));
        }
        texts.join(", ")
    });
    assert_eq!(texts[0], texts[1], "Arrow and Parquet agree");
    let [text, _] = texts;
    text
}

fn check(column: impl Array + 'static, wanted: &DataType, expected: &str) {
    let found = column.data_type().clone();
    assert_eq!(read(Arc::new(column), wanted), expected, "{found} as {wanted}");
}

#[test]
fn numbers_are_read_where_they_fit() {
    use DataType::{Decimal128, Float64, Int8, Int64, UInt8, UInt64};
    check(Int8Array::from(vec![Some(-5), None]), &Int64, "-5, ∅");
    check(
        Int64Array::from(vec![255, 256, -1]),
        &UInt8,
        "255, ! `256` is not a UInt8 (it is out of range), ! `-1` is not a UInt8 (it is negative)",
    );
    check(
        UInt64Array::from(vec![7, u64::MAX]),
        &Int64,
        "7, ! `18446744073709551615` is not an Int64 (it is out of range)",
    );
    check(Int16Array::from(vec![3]), &Float64, "3.0");
    check(Float32Array::from(vec![Some(0.5), None]), &Float64, "0.5, ∅");
    check(
        Float64Array::from(vec![Some(3.0), Some(1.5), Some(1000.0), None, Some(f64::NAN)]),
        &Int8,
        "3, ! `1.5` is not an Int8 (it is not a whole number), ! `1000` is not an Int8 (it is out of range), ∅, \
         ! `NaN` is not an Int8 (it is not a whole number)",
    );
    let money =
        Decimal128Array::from(vec![Some(150), Some(200), None]).with_precision_and_scale(10, 2).unwrap();
    check(money.clone(), &Float64, "1.5, 2.0, ∅");
    check(money.clone(), &UInt64, "! `1.50` is not a UInt64 (it is not a whole number), 2, ∅");
    check(money, &Decimal128(28, 18), "1.500000000000000000, 2.000000000000000000, ∅");
    check(Float64Array::from(vec![0.1]), &Decimal128(28, 18), "0.100000000000000000");
    let exact = Decimal128Array::from(vec![12_345_678_901_234_567_890_i128])
        .with_precision_and_scale(38, 19)
        .unwrap();
    check(exact, &Float64, "1.2345678901234567");
    check(BooleanArray::from(vec![true]), &DataType::Boolean, "true");
}

#[test]
fn structs_and_lists_of_fixed_length_are_tuples() {
    let part = |name: &str, data_type: DataType| Field::new(name, data_type, false);
    let tuple = |parts: Vec<Field>| DataType::Struct(parts.into());
    let pair = tuple(vec![part("0", DataType::UInt8), part("1", DataType::Utf8)]);
    let fields = Fields::from(vec![
        Field::new("port", DataType::Int64, true),
        Field::new("name", DataType::LargeUtf8, true),
    ]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![Some(7), Some(256), None, Some(300), None])),
        Arc::new(LargeStringArray::from(vec![Some("a"), Some("b"), Some("c"), Some("d"), None])),
    ];
    let nulls = NullBuffer::from(vec![true, true, true, false, false]);
    let structs = StructArray::new(fields, columns, Some(nulls));
    let expected = "{0: 7, 1: a}, ! part 1: `256` is not a UInt8 (it is out of range), \
                    ! part 1 of the tuple is null, ∅, ∅";
    check(structs.clone(), &pair, expected);
    let one = tuple(vec![part("0", DataType::UInt8)]);
    assert!(read(Arc::new(structs), &one).starts_with("refused: Struct("));
    let list = FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(
        vec![Some(vec![Some(10), Some(1)]), None, Some(vec![Some(10), None]), Some(vec![Some(-1), Some(2)])],
        2,
    );
    let address = tuple(vec![part("0", DataType::UInt8), part("1", DataType::UInt8)]);
    let expected = "{0: 10, 1: 1}, ∅, ! part 2 of the tuple is null, \
                    ! part 1: `-1` is not a UInt8 (it is negative)";
    check(list.clone(), &address, expected);
    let sliced = list.slice(2, 2);
    check(sliced, &address, expected.strip_prefix("{0: 10, 1: 1}, ∅, ").unwrap());
}

#[test]
fn texts_and_bytes_are_read_in_every_layout() {
    use DataType::{Binary, UInt64, Utf8};
    check(LargeStringArray::from(vec![Some("a"), None]), &Utf8, "a, ∅");
    check(StringViewArray::from(vec!["a", "longer than twelve bytes"]), &Utf8, "a, longer than twelve bytes");
    let words: DictionaryArray<Int32Type> = vec![Some("F"), None, Some("M"), Some("F")].into_iter().collect();
    check(words, &Utf8, "F, ∅, M, F");
    let numbers = DictionaryArray::new(Int32Array::from(vec![1, 0]), Arc::new(Int64Array::from(vec![-1, 5])));
    check(numbers, &UInt64, "5, ! `-1` is not a UInt64 (it is negative)");
    check(BinaryArray::from_vec(vec![b"Ada", b"\xff"]), &Utf8, "Ada, ! it is not UTF-8 text");
    check(BinaryViewArray::from(vec![Some(&b"\x00\xff"[..])]), &Binary, "00ff");
    check(FixedSizeBinaryArray::try_from_iter([[1, 2]].iter()).unwrap(), &Binary, "0102");
    check(NullArray::new(2), &UInt64, "∅, ∅");
}

#[test]
fn dates_and_times_are_numbers_or_texts() {
    use DataType::{Int64, UInt64, Utf8};
    check(Date32Array::from(vec![Some(20_000), None]), &Int64, "20000, ∅");
    check(Date32Array::from(vec![20_000]), &Utf8, "2024-10-04");
    check(TimestampMillisecondArray::from(vec![1_500]), &UInt64, "1500000000");
    check(TimestampMillisecondArray::from(vec![1_500]), &Utf8, "1970-01-01T00:00:01.500");
    let zoned = TimestampMillisecondArray::from(vec![1_500, i64::MAX]).with_timezone("Europe/Berlin");
    check(zoned.slice(0, 1), &Utf8, "1970-01-01T00:00:01.500Z");
    let text = read(Arc::new(zoned), &Int64);
    assert!(text.starts_with("1500000000, ! `"), "{text}");
}

#[test]
fn what_cannot_be_meant_is_refused() {
    use DataType::{Boolean, Float64, Int32, UInt64, Utf8};
    check(StringArray::from(vec!["1"]), &UInt64, "refused: Utf8");
    check(
        StringArray::from(vec![Some("True"), Some("FALSE"), Some("false"), None, Some("yes")]),
        &Boolean,
        "true, false, false, ∅, ! `yes` is not a Bool (write true or false)",
    );
    check(Int64Array::from(vec![1]), &Utf8, "refused: Int64");
    check(Int64Array::from(vec![1]), &Boolean, "refused: Int64");
    check(BooleanArray::from(vec![true]), &Float64, "refused: Boolean");
    check(TimestampNanosecondArray::from(vec![1]), &Int32, "refused: Timestamp(ns)");
    let words: DictionaryArray<Int32Type> = vec!["F"].into_iter().collect();
    check(words, &UInt64, "refused: Dictionary(Int32, Utf8)");
}

/// The times of a file with this column, in nanoseconds, and the rejected rows.
fn times(
    name: &str,
    column: ArrayRef,
    options: &[(&str, &str)],
) -> Result<(Vec<i64>, Vec<String>, bool), String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    write(&path, &RecordBatch::try_from_iter_with_nullable([("time", column, true)]).unwrap());
    let mut source = open(&path, vec![], options.iter().copied().collect())
        .map_err(|error| error.replace(path.to_str().unwrap(), "FILE"))?;
    let (mut times, mut rejected, mut relative) = (Vec::new(), Vec::new(), false);
    while let Some(events) = source.next_batch().unwrap() {
        times.extend_from_slice(&events.times);
        rejected.extend(events.rejected.into_iter().map(|bad| bad.to_string()));
        relative |= events.relative;
    }
    Ok((times, rejected, relative))
}

#[test]
fn a_column_of_any_type_can_say_when_a_row_happened() {
    const INSTANT: i64 = 1_376_438_400;
    let instant = |unit: i64| INSTANT * unit;
    let columns: Vec<(ArrayRef, &[(&str, &str)])> = vec![
        (Arc::new(TimestampSecondArray::from(vec![INSTANT])), &[]),
        (
            Arc::new(TimestampMillisecondArray::from(vec![instant(1_000)]).with_timezone("America/New_York")),
            &[],
        ),
        (Arc::new(TimestampNanosecondArray::from(vec![instant(1_000_000_000)])), &[("time_format", "ms")]),
        (Arc::new(Date32Array::from(vec![i32::try_from(INSTANT / 86_400).unwrap()])), &[]),
        (Arc::new(Date64Array::from(vec![instant(1_000)])), &[]),
        (Arc::new(Int64Array::from(vec![INSTANT])), &[]),
        (Arc::new(Int32Array::from(vec![i32::try_from(INSTANT).unwrap()])), &[("time_format", "s")]),
        (Arc::new(UInt64Array::from(vec![instant(1_000_000).unsigned_abs()])), &[]),
        (Arc::new(Int64Array::from(vec![20_130_814])), &[("time_format", "date")]),
        (Arc::new(Float64Array::from(vec![INSTANT as f64])), &[]),
        (Arc::new(StringArray::from(vec!["2013-08-14T02:00:00+02:00"])), &[]),
        (Arc::new(StringViewArray::from(vec!["2013-08-14"])), &[("time_format", "date")]),
        (Arc::new(vec!["1376438400"].into_iter().collect::<DictionaryArray<Int32Type>>()), &[]),
    ];
    for (column, options) in columns {
        let data_type = column.data_type().clone();
        for name in ["a.parquet", "a.arrow"] {
            let (times, rejected, relative) = times(name, Arc::clone(&column), options).unwrap();
            assert_eq!(
                (times, rejected.len(), relative),
                (vec![instant(1_000_000_000)], 0, false),
                "{data_type}"
            );
        }
    }
}

#[test]
fn times_since_the_start_are_relative() {
    let half = vec![500_000_000];
    for name in ["a.parquet", "a.arrow"] {
        let duration = Arc::new(DurationMillisecondArray::from(vec![500]));
        assert_eq!(times(name, duration, &[]).unwrap(), (half.clone(), vec![], true));
        let seconds = Arc::new(Float64Array::from(vec![0.5]));
        assert_eq!(times(name, seconds, &[]).unwrap(), (half.clone(), vec![], true));
        let instants = Arc::new(TimestampMillisecondArray::from(vec![500]));
        assert_eq!(
            times(name, instants, &[("time_format", "relative")]).unwrap(),
            (half.clone(), vec![], true)
        );
    }
}

#[test]
fn a_row_without_a_time_is_rejected() {
    let column = Arc::new(TimestampSecondArray::from(vec![Some(1), None, Some(i64::MAX / 2), Some(2)]));
    let (found, rejected, _) = times("a.parquet", column, &[]).unwrap();
    assert_eq!(found, [1_000_000_000, 2_000_000_000]);
    assert_eq!(rejected[0], "row 2, column `time`: there is no time");
    assert!(rejected[1].starts_with("row 3, column `time`: `"), "{}", rejected[1]);
    assert!(rejected[1].ends_with("` is not between the years 1677 and 2262"), "{}", rejected[1]);
    let column = Arc::new(StringArray::from(vec!["2013-08-14", "soon"]));
    let (_, rejected, _) = times("a.arrow", column, &[]).unwrap();
    assert_eq!(
        rejected,
        ["row 2, column `time`: `soon` is not a date or RFC 3339 time between the years 1677 and 2262"]
    );
    let column = Arc::new(Time32SecondArray::from(vec![1]));
    assert_eq!(
        times("a.parquet", column, &[]).unwrap_err(),
        "cannot open FILE: column `time` is Time32(s), which does not say when a row happened; name another with `--time`"
    );
}

/// Columns of one name are an error only where they are read.
#[test]
fn columns_of_one_name_can_be_left_unread() {
    let dir = tempfile::tempdir().unwrap();
    let numbers = |numbers: [i64; 2]| -> ArrayRef { Arc::new(Int64Array::from(numbers.to_vec())) };
    let names = ["time", "x", "id", "x"];
    let fields: Vec<Field> = names.iter().map(|name| Field::new(*name, DataType::Int64, false)).collect();
    let schema = Arc::new(arrow::datatypes::Schema::new(fields));
    let columns = vec![numbers([1, 2]), numbers([3, 4]), numbers([5, 6]), numbers([7, 8])];
    let rows = RecordBatch::try_new(schema, columns).unwrap();
    let path = dir.path().join("twice.arrow");
    let mut writer = FileWriter::try_new(File::create(&path).unwrap(), &rows.schema()).unwrap();
    writer.write(&rows).unwrap();
    writer.finish().unwrap();
    let open = |name: &str| {
        let request = SourceRequest {
            location: path.to_str().unwrap().to_owned(),
            wanted: vec![WantedColumn::new(name, DataType::Int64)],
            ..SourceRequest::default()
        };
        fairstream_parquet::ArrowSources.open(&request).map_err(|error| error.to_string())
    };
    let batch = open("id").unwrap().next_batch().unwrap().unwrap();
    assert_eq!(array_value_to_string(batch.rows.column(0), 1).unwrap(), "6");
    let error = open("x").map(|_| ()).unwrap_err();
    assert!(error.ends_with("column `x` is there twice, as number 2 and 4; rename one of them"), "{error}");
}
