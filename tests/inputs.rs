//! Inputs that are written in several ways have the same rows.

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::DataType;
use fairstream_core::compliance::{BadInput, SourceCase, check_source};
use fairstream_core::{Adapter, Options, Source, SourceError, SourceFactory, SourceRequest, WantedColumn};
use fairstream_csv::CsvSources;
use fairstream_files::{JoinTable, Joined};
use fairstream_json::JsonSources;
use proptest::prelude::*;

/// The rows of an input as text, each with its time, and the rejected ones with their reasons.
fn rows(
    factory: &dyn SourceFactory,
    location: &Path,
    options: &[(&str, &str)],
) -> (Vec<String>, Vec<String>) {
    let request = SourceRequest {
        location: location.to_str().unwrap().to_owned(),
        options: options.iter().copied().collect::<Options>(),
        wanted: vec![WantedColumn::new("n", DataType::Int64), WantedColumn::new("name", DataType::Utf8)],
        ..SourceRequest::default()
    };
    let mut source = factory.open(&request).unwrap();
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    while let Some(batch) = source.next_batch().unwrap() {
        let shown = |column: usize, row: usize| {
            let columns = batch.rows.columns();
            columns.get(column).map_or(String::new(), |column| {
                arrow::util::display::array_value_to_string(column, row).unwrap()
            })
        };
        for row in 0..batch.len() {
            good.push(format!("{} {} {}", batch.time(row).for_people(), shown(0, row), shown(1, row)));
        }
        bad.extend(batch.rejected.iter().map(|bad| format!("{:?}: {}", bad.column, bad.reason)));
    }
    (good, bad)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Rows in their order are a second apart, and bad rows and empty lines do not shift those behind them.
    #[test]
    fn rows_in_their_order_have_their_number_as_time(
        fields in prop::collection::vec((prop::option::of(0..100_i64), any::<bool>()), 1..30),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (mut csv, mut json) = ("n,name\n".to_owned(), String::new());
        let mut expected = Vec::new();
        for ((number, empty_line), row) in fields.iter().zip(1..) {
            let number = number.map_or("x".to_owned(), |number| number.to_string());
            csv += &format!("{number},a\n");
            json += &format!("{{\"n\":\"{number}\",\"name\":\"a\"}}\n");
            if *empty_line {
                csv += "\n";
                json += "\n";
            }
            if number != "x" {
                expected.push(format!("{row}s {number} a"));
            }
        }
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("a.csv"), csv).unwrap();
        std::fs::write(at("a.jsonl"), json).unwrap();
        let by_row = [("time", "row"), ("time_format", "date")];
        let (good, bad) = rows(&CsvSources, &at("a.csv"), &by_row);
        prop_assert_eq!(&good, &expected);
        prop_assert_eq!(good.len() + bad.len(), fields.len());
        prop_assert_eq!(rows(&JsonSources, &at("a.jsonl"), &by_row), (good, bad));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// A text is the same in every encoding that has its characters.
    #[test]
    fn rows_are_the_same_in_every_encoding(names in prop::collection::vec("[ -~é€ü“]{1,8}", 1..20)) {
        let folder = tempfile::tempdir().unwrap();
        let quoted = |name: &String| format!("\"{}\"", name.replace('"', "\"\""));
        let csv: String = names.iter().map(|name| format!("1,{}\n", quoted(name))).collect();
        let csv = format!("n,name\n{csv}");
        let json: String = names.iter().map(|name| {
            format!("{{\"n\":1,\"name\":{}}}\n", serde_json::to_string(name).unwrap())
        }).collect();
        for (text, factory) in [(csv, &CsvSources as &dyn SourceFactory), (json, &JsonSources)] {
            let units = || format!("\u{feff}{text}").encode_utf16().collect::<Vec<_>>();
            let written = |bytes: Vec<u8>, encoding: Option<&str>| {
                let path = folder.path().join("text");
                std::fs::write(&path, bytes).unwrap();
                let options: Vec<_> =
                    [("time", "row")].into_iter().chain(encoding.map(|encoding| ("encoding", encoding))).collect();
                rows(factory, &path, &options)
            };
            let expected: Vec<String> =
                names.iter().zip(1..).map(|(name, row)| format!("{row}s 1 {name}")).collect();
            let windows = |c: char| match c { '€' => 0x80, '“' => 0x93, other => u8::try_from(other).unwrap() };
            let low_first: Vec<u8> = units().into_iter().flat_map(u16::to_le_bytes).collect();
            let found = [
                written(text.clone().into_bytes(), None),
                written(format!("\u{feff}{text}").into_bytes(), None),
                written(low_first.clone(), None),
                written(units().into_iter().flat_map(u16::to_be_bytes).collect(), None),
                written(low_first[2..].to_vec(), Some("utf-16le")),
                written(text.chars().map(windows).collect(), Some("windows-1252")),
            ];
            for (good, bad) in found {
                prop_assert_eq!(&good, &expected);
                prop_assert!(bad.is_empty());
            }
        }
    }
}

#[test]
fn a_column_that_is_called_row_has_the_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    std::fs::write(&path, "row,n,name\n7,1,a\n9,2,b\n").unwrap();
    assert_eq!(rows(&CsvSources, &path, &[("time", "row")]).0, ["7s 1 a", "9s 2 b"]);
}

/// The error of the first time names further ones, whatever the sizes of batches are.
#[test]
fn a_first_time_that_cannot_be_read_is_shown_with_others() {
    let folder = tempfile::tempdir().unwrap();
    let times = ["Q1 2026", "Q2 2026", "Q2 2026", "x", "Q3 2026"];
    let at = |name: &str| folder.path().join(name);
    let csv: String = times.iter().map(|time| format!("{time},5,a\n")).collect();
    std::fs::write(at("a.csv"), format!("when,n,name\n{csv}")).unwrap();
    let json: String = times.iter().map(|time| format!("{{\"when\":\"{time}\",\"n\":\"y\"}}\n")).collect();
    std::fs::write(at("a.jsonl"), json).unwrap();
    let column: arrow::array::ArrayRef = std::sync::Arc::new(arrow::array::StringArray::from(times.to_vec()));
    let batch = arrow::array::RecordBatch::try_from_iter([("when", column)]).unwrap();
    let file = std::fs::File::create(at("a.arrow")).unwrap();
    let mut writer = arrow::ipc::writer::FileWriter::try_new(file, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    let expected = "`Q1 2026` is not a time (a number of seconds, a date, or RFC 3339) between the years 1677 and \
                    2262 (after it: `Q2 2026`, `x`); say how times are written with `--time-format`: iso, rfc3339, \
                    date, s, ms, us, ns, relative, or a pattern such as `%d.%m.%Y %H:%M`, `%m/%d/%Y` or `%Y`; \
                    `--time row` takes rows in their order instead";
    let sources: [(&dyn SourceFactory, &str); 3] =
        [(&CsvSources, "a.csv"), (&JsonSources, "a.jsonl"), (&fairstream_parquet::ArrowSources, "a.arrow")];
    for (factory, name) in sources {
        for max_rows in [1, 2, 1000] {
            let mut request = SourceRequest {
                location: at(name).to_str().unwrap().to_owned(),
                options: [("time", "when")].into_iter().collect(),
                wanted: vec![WantedColumn::new("n", DataType::Int64)],
                ..SourceRequest::default()
            };
            request.context.max_rows = std::num::NonZeroUsize::new(max_rows).unwrap();
            let mut source = factory.open(&request).unwrap();
            let bad = source.next_batch().unwrap().unwrap().rejected.remove(0);
            assert_eq!(
                (bad.column.as_deref(), bad.reason.as_str()),
                (Some("when"), expected),
                "{name} {max_rows}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Files of a folder are one input, merged by time as one file in that order would be; rows of equal time are in
    /// the order of the files.
    #[test]
    fn a_folder_is_the_same_as_one_file(
        files in prop::collection::vec(prop::collection::vec(0..20_u32, 0..12), 1..5),
        bad in prop::option::of((0..5_usize, 0..12_usize)),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut all = Vec::new();
        for (index, times) in files.iter().enumerate() {
            let mut times = times.clone();
            times.sort_unstable();
            let mut text = "time,n,name\n".to_owned();
            for (row, time) in times.iter().enumerate() {
                let is_bad = bad == Some((index, row));
                let n = if is_bad { "x".to_owned() } else { row.to_string() };
                text += &format!("{time},{n},{index}\n");
                if !is_bad {
                    all.push((*time, index, row));
                }
            }
            std::fs::write(folder.path().join(format!("{index}.csv")), text).unwrap();
        }
        all.sort_unstable();
        let expected: Vec<String> = all.iter().map(|(time, index, row)| format!("{time}s {row} {index}")).collect();
        let (good, rejected) = rows(&CsvSources, folder.path(), &[]);
        prop_assert_eq!(&good, &expected);
        prop_assert_eq!(good.len() + rejected.len(), files.iter().map(Vec::len).sum::<usize>());
    }
}

/// CSV that is joined with the table beside it: `labels.csv`, by `n`.
struct JoinedCsv;

impl SourceFactory for JoinedCsv {
    fn adapter(&self) -> Adapter {
        CsvSources.adapter()
    }

    fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, SourceError> {
        let labels = SourceRequest {
            location: Path::new(&request.location).with_file_name("labels.csv").to_str().unwrap().to_owned(),
            options: [("time", "row")].into_iter().collect(),
            resume: None,
            ..request.clone()
        };
        let table = JoinTable::read(CsvSources.open(&labels)?, "n".parse().unwrap())?;
        Ok(Joined::around(CsvSources.open(request)?, &Arc::new(table), &request.wanted))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Each row gets the columns of the one row of the table with its key, or nulls.
    #[test]
    fn rows_get_what_the_table_has_for_their_key(
        labels in prop::collection::btree_map(0..20_u32, prop::option::of("[a-z]{1,3}"), 1..12),
        keys in prop::collection::vec(prop::option::of(0..20_u32), 1..40),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let table: String =
            labels.iter().map(|(key, name)| format!("{key},{}\n", name.as_deref().unwrap_or_default())).collect();
        std::fs::write(folder.path().join("labels.csv"), format!("n,name\n{table}")).unwrap();
        let text = |key: &Option<u32>| key.map_or(String::new(), |key| key.to_string());
        let events: String = keys.iter().map(|key| format!("{},x\n", text(key))).collect();
        let path = folder.path().join("events.csv");
        std::fs::write(&path, format!("n,name\n{events}")).unwrap();
        let expected: Vec<String> = keys.iter().zip(1..).map(|(key, row)| {
            let name = key.and_then(|key| labels.get(&key)).cloned().flatten().unwrap_or_default();
            format!("{row}s {} {name}", text(key))
        }).collect();
        let (good, bad) = rows(&JoinedCsv, &path, &[("time", "row")]);
        prop_assert_eq!((good, bad), (expected, vec![]));
    }
}

#[test]
fn joined_sources_comply() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        SourceRequest {
            location: path.to_str().unwrap().to_owned(),
            wanted: vec![WantedColumn::new("n", DataType::Int64), WantedColumn::new("name", DataType::Utf8)],
            ..SourceRequest::default()
        }
    };
    file("labels.csv", "n,name\n1,a\n3,c\n");
    check_source(&SourceCase {
        factory: &JoinedCsv,
        good: file("good.csv", "time,n\n1,1\n2,2\n3,3\n4,\n5,1\n"),
        rows: 5,
        bad: Some(BadInput {
            request: file("bad.csv", "time,n\n1,1\n2,x\n3,3\n"),
            row: 3,
            column: Some("n"),
        }),
        missing: SourceRequest {
            location: folder.path().join("no.csv").to_str().unwrap().to_owned(),
            ..file("unused.csv", "")
        },
        cut_off: None,
        live: None,
    });
    let request = file("labels.csv", "n,name\n1,a\n2,b\n1,c\n");
    let request = SourceRequest { options: [("time", "row")].into_iter().collect(), ..request };
    let table = |key: &str| {
        JoinTable::read(CsvSources.open(&request).unwrap(), key.parse().unwrap()).unwrap_err().to_string()
    };
    assert!(
        table("n").ends_with("row 2 and row 4 have the same `n`, `1`; a key has one row"),
        "{}",
        table("n")
    );
    assert!(
        table("m").ends_with("there is no column `m` to join by; there are `n`, `name`"),
        "{}",
        table("m")
    );
}
