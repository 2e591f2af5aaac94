//! The CSV source and sink fulfil the contracts of `Source` and `Sink`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use arrow::datatypes::DataType;
use fairstream_core::compliance::{BadInput, LiveInput, SinkCase, SourceCase, check_sink, check_source};
use fairstream_core::{Options, SinkRequest, SourceFactory, SourceRequest, WantedColumn};
use fairstream_csv::{CsvSinks, CsvSources};

const HEADER: &str = "id,time,gender,score,accepted\n";

const GOOD: &str = "\
1,0.5,F,1.5,true
2,1,\"M, or so\",,false

3,2,\"two
lines\",-3,
,3,,,
5,1e1,F,inf,TRUE
";

fn request(location: &Path) -> SourceRequest {
    SourceRequest {
        location: location.to_str().unwrap().to_owned(),
        wanted: vec![
            WantedColumn::new("gender", DataType::Utf8),
            WantedColumn::new("id", DataType::UInt8),
            WantedColumn::new("score", DataType::Float64),
            WantedColumn::new("accepted", DataType::Boolean),
            WantedColumn::new("elsewhere", DataType::Int64),
        ],
        ..SourceRequest::default()
    }
}

/// A named pipe with rows in it whose writer stays open and writes no more.
fn silent_pipe(dir: &Path) -> LiveInput {
    let path = dir.join(format!("pipe-{:?}.csv", thread::current().id()));
    let _ = std::fs::remove_file(&path);
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let (keep_open, until) = mpsc::channel::<()>();
    let write_to = path.clone();
    thread::spawn(move || {
        let mut pipe = File::options().write(true).open(write_to).unwrap();
        write!(pipe, "{HEADER}1,1,F,1,true\n2,2,M,2,false\n3,3,half a row").unwrap();
        let _ = until.recv();
    });
    LiveInput { request: request(&path), ready: 2, writer: Box::new(keep_open) }
}

/// A truncated compressed file.
fn cut_off(dir: &Path) -> SourceRequest {
    let rows: String = (0..50_000).map(|row| format!("1,{row},F,{},true\n", row * 7919 % 1009)).collect();
    let packed = zstd::encode_all(format!("{HEADER}{rows}").as_bytes(), 1).unwrap();
    let path = dir.join("cut.csv.zst");
    std::fs::write(&path, &packed[..packed.len() * 3 / 4]).unwrap();
    request(&path)
}

fn check(name: &str, pack: &dyn Fn(&str) -> Vec<u8>) {
    check_with(name, pack, &[]);
}

fn check_with(name: &str, pack: &dyn Fn(&str) -> Vec<u8>, options: &[(&str, &str)]) {
    let request =
        |location: &Path| SourceRequest { options: options.iter().copied().collect(), ..request(location) };
    let dir = tempfile::tempdir().unwrap();
    let file = |prefix: &str, text: &str| {
        let path = dir.path().join(format!("{prefix}-{name}"));
        std::fs::write(&path, pack(&format!("{HEADER}{text}"))).unwrap();
        request(&path)
    };
    check_source(&SourceCase {
        factory: &CsvSources,
        good: file("good", GOOD),
        rows: 5,
        bad: Some(BadInput {
            request: file("bad", "1,1,F,1,true\n2,2,M,2,false\n3,3,\"a\nb\",x,true\n4,4,F,4,true\n"),
            row: 4,
            column: Some("score"),
        }),
        missing: request(&dir.path().join("missing.csv")),
        cut_off: Some(request(Path::new(&cut_off(dir.path()).location))),
        live: Some(&|| {
            let live = silent_pipe(dir.path());
            LiveInput { request: request(Path::new(&live.request.location)), ..live }
        }),
    });
}

/// The same without inputs that are cut off or do not end.
fn check_good(name: &str, pack: &dyn Fn(&str) -> Vec<u8>, options: &[(&str, &str)]) {
    let dir = tempfile::tempdir().unwrap();
    let file = |prefix: &str, text: &str| {
        let path = dir.path().join(format!("{prefix}-{name}"));
        std::fs::write(&path, pack(&format!("{HEADER}{text}"))).unwrap();
        SourceRequest { options: options.iter().copied().collect(), ..request(&path) }
    };
    check_source(&SourceCase {
        factory: &CsvSources,
        good: file("good", GOOD),
        rows: 5,
        bad: Some(BadInput {
            request: file("bad", "1,1,F,1,true\n2,2,M,2,false\n3,3,\"a\nb\",x,true\n4,4,F,4,true\n"),
            row: 4,
            column: Some("score"),
        }),
        missing: request(&dir.path().join("missing")),
        cut_off: None,
        live: None,
    });
}

#[test]
fn source_complies() {
    check("plain.csv", &|text| text.as_bytes().to_vec());
}

#[test]
fn source_complies_with_rows_in_their_order() {
    check_with("ordered.csv", &|text| text.as_bytes().to_vec(), &[("time", "row")]);
}

/// The format that is found, with its first time, is part of the position.
#[test]
fn source_complies_with_times_as_people_write_them() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, times: [&str; 5]| {
        let path = dir.path().join(name);
        let rows: String =
            times.iter().zip(1..).map(|(time, id)| format!("{id},\"{time}\",F,1,true\n")).collect();
        std::fs::write(&path, format!("{HEADER}{rows}")).unwrap();
        request(&path)
    };
    let dots =
        ["01.03.2026 14:30", "1.3.2026 14:31", "02.03.2026 00:00", "02.03.2026 00:00", "11.03.2026 09:05"];
    let months = ["May 1, 2026", "May 30, 2026", "June 1, 2026", "Jul 1, 2026", "Dec 31, 2026"];
    for (name, times) in [("dots.csv", dots), ("months.csv", months)] {
        let mut bad = times;
        bad[2] = "2026-03-02";
        check_source(&SourceCase {
            factory: &CsvSources,
            good: file(name, times),
            rows: 5,
            bad: Some(BadInput { request: file(&format!("bad-{name}"), bad), row: 4, column: Some("time") }),
            missing: request(&dir.path().join("missing.csv")),
            cut_off: None,
            live: None,
        });
    }
}

#[test]
fn source_complies_without_a_header() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        let wanted =
            vec![WantedColumn::new("c1", DataType::UInt8), WantedColumn::new("c4", DataType::Float64)];
        let options = [("header", "false"), ("time", "c2")].into_iter().collect();
        SourceRequest { wanted, options, ..request(&path) }
    };
    let good = file("good.csv", GOOD);
    let first = CsvSources.open(&good).unwrap().next_batch().unwrap().unwrap();
    assert_eq!((first.len(), first.row_numbers[0], first.times[0]), (5, 1, 500_000_000));
    check_source(&SourceCase {
        factory: &CsvSources,
        good,
        rows: 5,
        bad: Some(BadInput {
            request: file(
                "bad.csv",
                "\u{feff}1,1,F,1,true\n2,2,M,2,false\n3,3,\"a\nb\",x,true\n4,4,F,4,true\n",
            ),
            row: 3,
            column: Some("c4"),
        }),
        missing: request(&dir.path().join("missing.csv")),
        cut_off: None,
        live: None,
    });
}

#[test]
fn folders_comply() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, rows: &[(i64, &str)]| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = format!(
            "{HEADER}{}",
            rows.iter().map(|(time, id)| format!("{id},{time},F,1.5,true\n")).collect::<String>()
        );
        std::fs::write(path, text).unwrap();
    };
    file("good/x=1/a.csv", &[(1, "1"), (4, "2"), (4, "3"), (9, "4"), (12, "5")]);
    file("good/x=1/b.csv", &[(2, "6"), (3, "7"), (4, "8"), (20, "9")]);
    file("good/x=2/c.csv", &[]);
    file("good/x=2/d.csv", &[(30, "10"), (31, "11")]);
    file("bad/1.csv", &[(1, "1"), (3, "2")]);
    file("bad/2.csv", &[(2, "1"), (3, "x"), (3, "3"), (5, "4")]);
    file("bad/3.csv", &[(1, "1"), (2, "2"), (3, "3"), (4, "4")]);
    let line = (1 << 40) + 3;
    for options in [vec![], vec![("time", "row")], vec![("sort", "true")]] {
        let at = |name: &str| {
            let mut request = request(&dir.path().join(name));
            request.options = options.iter().copied().collect();
            request.wanted.push(WantedColumn::new("x", DataType::UInt8));
            request
        };
        check_source(&SourceCase {
            factory: &CsvSources,
            good: at("good"),
            rows: 11,
            bad: Some(BadInput { request: at("bad"), row: line, column: Some("id") }),
            missing: at("*.csv"),
            cut_off: None,
            live: None,
        });
        let mut source = CsvSources.open(&at("good/**/*.csv")).unwrap();
        let mut xs = Vec::new();
        while let Some(batch) = source.next_batch().unwrap() {
            let x = batch.rows.column_by_name("x").unwrap();
            let x = arrow::array::AsArray::as_primitive::<arrow::datatypes::UInt8Type>(x);
            xs.extend(batch.times.iter().zip(x.values()).map(|(time, x)| (time / 1_000_000_000, *x)));
        }
        let by_time =
            [(1, 1), (2, 1), (3, 1), (4, 1), (4, 1), (4, 1), (9, 1), (12, 1), (20, 1), (30, 2), (31, 2)];
        match options.first() {
            None => assert_eq!(xs, by_time),
            Some(("time", _)) => assert!(xs.iter().map(|(time, _)| *time).eq(1..=11)),
            _ => assert_eq!(xs.len(), 11),
        }
        let files = source.source_files();
        assert_eq!(files.find(line).map(|(name, row)| (name.ends_with("b.csv"), row)), Some((true, 3)));
    }
}

#[test]
fn source_complies_in_other_encodings() {
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let marked = |text: &str| [&[0xFF, 0xFE], utf16(text).as_slice()].concat();
    let high_first = |text: &str| {
        ['\u{feff}'.to_string().as_str(), text]
            .concat()
            .encode_utf16()
            .flat_map(u16::to_be_bytes)
            .collect::<Vec<u8>>()
    };
    check_good("utf16.csv", &marked, &[]);
    check_good("high_first.csv", &high_first, &[]);
    check_good("unmarked.csv", &utf16, &[("encoding", "utf-16le")]);
    check_good("packed.csv.zst", &|text| zstd::encode_all(marked(text).as_slice(), 3).unwrap(), &[]);
    let latin = |text: &str| text.chars().map(|c| u8::try_from(c).unwrap()).collect::<Vec<u8>>();
    check_good("latin.csv", &latin, &[("encoding", "latin1")]);
    check_good("windows.csv", &latin, &[("encoding", "windows-1252")]);
}

#[test]
fn source_complies_with_carriage_returns_and_no_last_line_end() {
    check("dos.csv", &|text| text.trim_end().replace('\n', "\r\n").into_bytes());
}

#[test]
fn source_complies_when_compressed() {
    check("packed.csv.zst", &|text| zstd::encode_all(text.as_bytes(), 3).unwrap());
}

#[test]
fn sink_complies() {
    let dir = tempfile::tempdir().unwrap();
    let location = dir.path().join("verdicts.csv").to_str().unwrap().to_owned();
    check_sink(&SinkCase {
        factory: &CsvSinks,
        request: SinkRequest { location, options: Options::default(), ..SinkRequest::default() },
        readable_while_open: true,
        forbidden: SinkRequest {
            location: "/no/such/place/verdicts.csv".to_owned(),
            ..SinkRequest::default()
        },
        read: &|path| {
            let mut reader = csv::Reader::from_path(path).unwrap();
            assert_eq!(
                reader.headers().unwrap(),
                ["time", "kind", "stream", "instance", "value", "message"].as_slice()
            );
            reader
                .records()
                .map(|record| format!("{:?}", record.unwrap().iter().collect::<Vec<_>>()))
                .collect()
        },
    });
}
