//! The JSON-lines source fulfils the contract of `Source`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use arrow::datatypes::DataType;
use fairstream_core::compliance::{BadInput, LiveInput, SourceCase, check_source};
use fairstream_core::{SourceFactory, SourceRequest, WantedColumn};
use fairstream_json::JsonSources;

const GOOD: &str = r#"{"id":1,"time":0.5,"gender":"F","score":1.5,"accepted":true}
{"time":"1","gender":"M, \"or\" so","score":null,"id":"2","more":[1,{"id":9}]}

{"time":2, "id":3, "gender":"two\nlines"}
{"time":3}
{"id":5,"time":1e1,"gender":"F","score":"inf","accepted":"TRUE"}
"#;

const BAD: &str = r#"{"id":1,"time":1,"gender":"F","score":1}
{"id":2,"time":2,"gender":"M","score":2}

{"id":3,"time":3,"gender":"F","score":"x"}
{"id":4,"time":4,"gender":"F","score":4}
"#;

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

/// A named pipe with lines in it whose writer stays open and writes no more.
fn silent_pipe(dir: &Path) -> LiveInput {
    let path = dir.join(format!("pipe-{:?}.jsonl", thread::current().id()));
    let _ = std::fs::remove_file(&path);
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let (keep_open, until) = mpsc::channel::<()>();
    let write_to = path.clone();
    thread::spawn(move || {
        let mut pipe = File::options().write(true).open(write_to).unwrap();
        pipe.write_all(b"{\"time\":1,\"id\":1}\n{\"time\":2,\"id\":2}\n{\"time\":3,\"id\"").unwrap();
        let _ = until.recv();
    });
    LiveInput { request: request(&path), ready: 2, writer: Box::new(keep_open) }
}

/// A truncated compressed file.
fn cut_off(dir: &Path) -> SourceRequest {
    let rows: String = (0..50_000)
        .map(|row| format!("{{\"time\":{row},\"id\":1,\"score\":{}}}\n", row * 7919 % 1009))
        .collect();
    let packed = zstd::encode_all(rows.as_bytes(), 1).unwrap();
    let path = dir.join("cut.jsonl.zst");
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
        std::fs::write(&path, pack(text)).unwrap();
        request(&path)
    };
    check_source(&SourceCase {
        factory: &JsonSources,
        good: file("good", GOOD),
        rows: 5,
        bad: Some(BadInput { request: file("bad", BAD), row: 4, column: Some("score") }),
        missing: request(&dir.path().join("missing.jsonl")),
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
        std::fs::write(&path, pack(text)).unwrap();
        SourceRequest { options: options.iter().copied().collect(), ..request(&path) }
    };
    check_source(&SourceCase {
        factory: &JsonSources,
        good: file("good", GOOD),
        rows: 5,
        bad: Some(BadInput { request: file("bad", BAD), row: 4, column: Some("score") }),
        missing: request(&dir.path().join("missing")),
        cut_off: None,
        live: None,
    });
}

#[test]
fn source_complies() {
    check("plain.jsonl", &|text| text.as_bytes().to_vec());
}

#[test]
fn source_complies_with_rows_in_their_order() {
    check_with("ordered.jsonl", &|text| text.as_bytes().to_vec(), &[("time", "row")]);
}

#[test]
fn folders_comply() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, rows: &[(i64, &str)]| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = rows
            .iter()
            .map(|(time, id)| format!("{{\"id\":\"{id}\",\"time\":{time},\"score\":1.5}}\n"))
            .collect::<String>();
        std::fs::write(path, text).unwrap();
    };
    file("good/x=1/a.jsonl", &[(1, "1"), (4, "2"), (4, "3"), (9, "4"), (12, "5")]);
    file("good/x=1/b.jsonl", &[(2, "6"), (3, "7"), (4, "8"), (20, "9")]);
    file("good/x=2/c.jsonl", &[]);
    file("good/x=2/d.jsonl", &[(30, "10"), (31, "11")]);
    file("bad/1.jsonl", &[(1, "1"), (3, "2")]);
    file("bad/2.jsonl", &[(2, "1"), (3, "x"), (3, "3"), (5, "4")]);
    file("bad/3.jsonl", &[(1, "1"), (2, "2"), (3, "3"), (4, "4")]);
    let line = (1 << 40) + 2;
    for options in [vec![], vec![("time", "row")], vec![("sort", "true")]] {
        let at = |name: &str| {
            let mut request = request(&dir.path().join(name));
            request.options = options.iter().copied().collect();
            request.wanted.push(WantedColumn::new("x", DataType::UInt8));
            request
        };
        check_source(&SourceCase {
            factory: &JsonSources,
            good: at("good"),
            rows: 11,
            bad: Some(BadInput { request: at("bad"), row: line, column: Some("id") }),
            missing: at("*.jsonl"),
            cut_off: None,
            live: None,
        });
        let mut source = JsonSources.open(&at("good/**/*.jsonl")).unwrap();
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
        assert_eq!(files.find(line).map(|(name, row)| (name.ends_with("b.jsonl"), row)), Some((true, 2)));
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
    check_good("utf16.jsonl", &marked, &[]);
    check_good("high_first.jsonl", &high_first, &[]);
    check_good("unmarked.jsonl", &utf16, &[("encoding", "utf-16le")]);
    check_good("packed.jsonl.zst", &|text| zstd::encode_all(marked(text).as_slice(), 3).unwrap(), &[]);
    let latin = |text: &str| text.chars().map(|c| u8::try_from(c).unwrap()).collect::<Vec<u8>>();
    check_good("latin.jsonl", &latin, &[("encoding", "latin1")]);
    check_good("windows.jsonl", &latin, &[("encoding", "windows-1252")]);
}

#[test]
fn source_complies_with_carriage_returns_and_no_last_line_end() {
    check("dos.jsonl", &|text| text.trim_end().replace('\n', "\r\n").into_bytes());
}

#[test]
fn source_complies_when_compressed() {
    check("packed.jsonl.zst", &|text| zstd::encode_all(text.as_bytes(), 3).unwrap());
}
