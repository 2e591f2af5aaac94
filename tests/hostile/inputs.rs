//! Data: quotes that are not closed, torn rows, numbers that are not exact, sizes that explode, thousands of files.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::{ParquetMetaDataReader, ParquetMetaDataWriter};
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::support::fairstream;

/// Finds a value of 501.
const FIND: &str = "input a : Int64\ntrigger a = 501 \"found\"\n";

/// A folder with the specification [`FIND`].
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("find.lola"), FIND).unwrap();
    dir
}

/// Runs `fairstream run find.lola` with these arguments in that folder: its exit code, output and errors.
fn run(dir: &tempfile::TempDir, arguments: &[&str]) -> (Option<i32>, String, String) {
    finish(fairstream().args(["run", "find.lola"]).args(arguments).current_dir(dir.path()))
}

fn finish(command: &mut Command) -> (Option<i32>, String, String) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Rows `time,name,a` from one number to another, the last with the value 501.
fn rows(numbers: std::ops::RangeInclusive<u32>) -> String {
    let mut text = String::new();
    let last = *numbers.end();
    for number in numbers {
        let value = if number == last { 501 } else { 5 };
        writeln!(text, "{number},somebody,{value}").unwrap();
    }
    text
}

#[test]
fn a_quote_that_is_not_closed_costs_its_line_and_no_more() {
    let dir = folder();
    let text = format!("time,name,a\n1,x,5\n2,\"x,5\n{}", rows(3..=20_000));
    std::fs::write(dir.path().join("open.csv"), text).unwrap();

    let (code, _, errors) = run(&dir, &["open.csv", "-q"]);
    assert_eq!(code, Some(2));
    let reason = "row 3: a quote on line 3 is not closed within 65536 bytes; line 3 is left out; close the quote, or \
                  allow longer rows of several lines with `?max_row=BYTES` after the input";
    assert!(errors.contains(reason), "{errors}");

    let (code, output, errors) = run(&dir, &["open.csv", "--on-bad-row", "skip", "--max-bad", "100%"]);
    assert_eq!(code, Some(1), "{errors}");
    assert!(output.contains("20000s                 trigger_0  found"), "{output}");
    assert_eq!(errors.matches("skipped").count(), 1, "{errors}");
    assert!(errors.contains("19,999 events"), "{errors}");

    let (code, _, errors) = run(&dir, &["open.csv", "--on-bad-row", "file=bad.csv"]);
    assert_eq!(code, Some(1), "{errors}");
    let bad = std::fs::read_to_string(dir.path().join("bad.csv")).unwrap();
    assert_eq!(bad.lines().count(), 2, "{bad}");
}

#[test]
fn lines_without_rows_are_one_region_with_its_extent() {
    let dir = folder();
    let prose = "these are words, more or less, and, commas\n".repeat(3_000);
    let text = format!("time,name,a\n1,x,5\n2,\"{prose}{}", rows(3..=9));
    std::fs::write(dir.path().join("open.csv"), text).unwrap();
    let (code, output, errors) = run(&dir, &["open.csv", "--on-bad-row", "skip", "--max-bad", "100%"]);
    assert_eq!(code, Some(1), "{errors}");
    assert!(output.contains("found"), "{output}");
    assert_eq!(errors.matches("skipped").count(), 1, "{errors}");
    assert!(errors.contains("lines 3 to 3002 are left out, 3000 in all"), "{errors}");
    assert!(errors.contains("8 events"), "{errors}");

    // Allowed to be as long, it is one bad row up to the end of the input.
    let (_, _, errors) =
        run(&dir, &["open.csv?max_row=1000000", "--on-bad-row", "skip", "--max-bad", "100%"]);
    assert!(errors.contains("a quote on line 3 is not closed; lines 3 to 3002 are left out"), "{errors}");
}

#[test]
fn a_field_of_several_lines_is_read_up_to_the_bound() {
    let dir = folder();
    for (lines, arguments, is_read) in
        [(10, "long.csv", true), (10_000, "long.csv", false), (10_000, "long.csv?max_row=200000", true)]
    {
        let field = "a line, of a field\n".repeat(lines);
        std::fs::write(dir.path().join("long.csv"), format!("time,name,a\n1,\"{field}\",501\n2,x,5\n"))
            .unwrap();
        let (_, output, errors) = run(&dir, &[arguments, "--on-bad-row", "skip", "--max-bad", "100%"]);
        assert_eq!(output.contains("found"), is_read, "{lines}: {output}{errors}");
    }
}

/// A pipe that stays open: the alarm after the quote comes while it is open.
#[test]
fn a_quote_that_is_not_closed_does_not_blind_a_monitor_of_a_pipe() {
    let dir = folder();
    let run = |policy: &str| {
        fairstream()
            .args(["run", "find.lola", "csv:-", "-q", "--on-bad-row", policy])
            .current_dir(dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let text = format!("time,name,a\n1,x,5\n2,\"x,5\n{}", rows(3..=20_000));

    let mut child = run("skip");
    let mut input = child.stdin.take().unwrap();
    input.write_all(text.as_bytes()).unwrap();
    let output = child.stdout.take().unwrap();
    let (found, line) = mpsc::channel();
    thread::spawn(move || found.send(BufReader::new(output).lines().next()));
    let line = line.recv_timeout(Duration::from_secs(20)).expect("an alarm while the pipe is open");
    assert!(line.unwrap().unwrap().contains("found"));
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(1));

    let mut child = run("stop");
    let mut input = child.stdin.take().unwrap();
    // The monitor ends while this is written.
    let _ = input.write_all(text.as_bytes());
    let errors = child.stderr.take().unwrap();
    let ended = wait_for(child);
    assert_eq!(ended, Some(2), "it ends while the pipe is open");
    let errors = std::io::read_to_string(errors).unwrap();
    assert!(errors.contains("row 3: a quote on line 3 is not closed"), "{errors}");
    drop(input);
}

/// The exit code of a process that ends within 20 s.
fn wait_for(mut child: Child) -> Option<i32> {
    for _ in 0..2_000 {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    None
}

/// Reads a text, and finds the value 501.
const NAMES: &str = "input name : String\ninput a : Int64\ntrigger name = \"nobody\" ∨ a = 501 \"found\"\n";

const MIB: usize = 1 << 20;

/// Runs `fairstream run names.lola` with these arguments: its exit code, errors, and the most memory that was resident.
fn run_measured(dir: &tempfile::TempDir, arguments: &[&str]) -> (Option<i32>, String, usize) {
    std::fs::write(dir.path().join("names.lola"), NAMES).unwrap();
    let mut command = fairstream();
    command.args(["run", "names.lola"]).args(arguments).current_dir(dir.path());
    measured(&mut command)
}

fn measured(command: &mut Command) -> (Option<i32>, String, usize) {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let errors = child.stderr.take().unwrap();
    let errors = thread::spawn(move || std::io::read_to_string(errors).unwrap());
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let code = loop {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<usize>().ok());
        peak = peak.max(kibibytes.unwrap_or_default() * 1024);
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        if peak > 4096 * MIB {
            child.kill().unwrap();
        }
        thread::sleep(Duration::from_millis(5));
    };
    (code, errors.join().unwrap(), peak)
}

/// The rows `time`, `name`, `a`: the same name in each, and 501 in the last.
fn table(name: ArrayRef) -> RecordBatch {
    let count = i64::try_from(name.len()).unwrap();
    let times: ArrayRef = Arc::new(Int64Array::from_iter_values(1..=count));
    let numbers: ArrayRef =
        Arc::new(Int64Array::from_iter_values((1..=count).map(|row| if row == count { 501 } else { 5 })));
    RecordBatch::try_from_iter([("time", times), ("name", name), ("a", numbers)]).unwrap()
}

/// That many equal texts, as keys of a dictionary.
fn repeated(text: &str, rows: usize) -> ArrayRef {
    let values: ArrayRef = Arc::new(StringArray::from(vec![text]));
    Arc::new(DictionaryArray::new(Int32Array::from(vec![0; rows]), values))
}

fn write_parquet(dir: &tempfile::TempDir, rows: &RecordBatch, encoding: Option<Encoding>) -> u64 {
    let path = dir.path().join("huge.parquet");
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_statistics_enabled(EnabledStatistics::None);
    let properties = match encoding {
        None => properties.set_dictionary_page_size_limit(1 << 30),
        Some(encoding) => {
            properties.set_dictionary_enabled(false).set_column_encoding("name".into(), encoding)
        }
    };
    let mut writer =
        ArrowWriter::try_new(File::create(&path).unwrap(), rows.schema(), Some(properties.build())).unwrap();
    writer.write(rows).unwrap();
    writer.close().unwrap();
    path.metadata().unwrap().len()
}

#[test]
fn huge_texts_of_parquet_are_read_a_few_rows_at_a_time() {
    let dir = folder();
    for (encoding, rows) in [(None, 700), (Some(Encoding::DELTA_BYTE_ARRAY), 300)] {
        let size = write_parquet(&dir, &table(repeated(&"x".repeat(MIB), rows)), encoding);
        assert!(size < 1_000_000, "{size}");
        let (code, errors, peak) = run_measured(&dir, &["huge.parquet"]);
        assert_eq!(code, Some(1), "{errors}");
        assert!(errors.contains("00 events"), "{errors}");
        assert!(peak < 512 * MIB, "{encoding:?}: {} MiB", peak / MIB);
    }
    write_parquet(&dir, &table(repeated(&"x".repeat(MIB), 600)), None);
    let (code, errors, peak) = run_measured(&dir, &["huge.parquet", "--sort"]);
    assert_eq!(code, Some(1), "{errors}");
    assert!(peak < 512 * MIB, "sorted: {} MiB", peak / MIB);
    // A value that is larger than a line of text may be.
    write_parquet(&dir, &table(repeated(&"x".repeat(17 * MIB), 3)), None);
    let (code, errors, peak) = run_measured(&dir, &["huge.parquet"]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("row 1, column `name`: it is larger than 16777216 bytes"), "{errors}");
    assert!(peak < 1024 * MIB, "{} MiB", peak / MIB);
    // A page that is larger than memory should hold.
    write_parquet(&dir, &table(repeated(&"x".repeat(200 * MIB), 1)), None);
    let (code, errors, peak) = run_measured(&dir, &["huge.parquet"]);
    assert_eq!(code, Some(2));
    assert!(
        errors.contains("huge.parquet") && errors.contains("when it is decompressed, more than"),
        "{errors}"
    );
    assert!(peak < 1024 * MIB, "{} MiB", peak / MIB);
}

#[test]
fn huge_texts_of_arrow_are_read_a_few_rows_at_a_time() {
    let dir = folder();
    let write = |rows: &RecordBatch| {
        let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::ZSTD)).unwrap();
        let file = File::create(dir.path().join("huge.arrow")).unwrap();
        let mut writer = FileWriter::try_new_with_options(file, &rows.schema(), options).unwrap();
        writer.write(rows).unwrap();
        writer.finish().unwrap();
        dir.path().join("huge.arrow").metadata().unwrap().len()
    };
    let size = write(&table(repeated(&"x".repeat(MIB), 1_300)));
    assert!(size < 100_000, "{size}");
    let (code, errors, peak) = run_measured(&dir, &["huge.arrow"]);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("1,300 events"), "{errors}");
    assert!(peak < 512 * MIB, "{} MiB", peak / MIB);

    write(&table(repeated(&"x".repeat(600 * MIB), 1)));
    let (code, errors, peak) = run_measured(&dir, &["huge.arrow"]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("huge.arrow") && errors.contains("bytes when it is decompressed"), "{errors}");
    assert!(peak < 1024 * MIB, "{} MiB", peak / MIB);
}

/// A compressed text file of `start`, and then `piece` that many times.
fn write_gz(dir: &tempfile::TempDir, name: &str, start: &str, piece: &[u8], times: usize) -> u64 {
    let path = dir.path().join(name);
    let mut gz = flate2::write::GzEncoder::new(File::create(&path).unwrap(), flate2::Compression::fast());
    gz.write_all(start.as_bytes()).unwrap();
    for _ in 0..times {
        gz.write_all(piece).unwrap();
    }
    gz.finish().unwrap();
    path.metadata().unwrap().len()
}

#[test]
fn empty_lines_take_time_in_proportion() {
    let dir = folder();
    let size = write_gz(&dir, "empty.csv.gz", "time,name,a\n1,x,5\n", &[b'\n'; 65_536], 500);
    assert!(size < 200_000, "{size}");
    let start = Instant::now();
    let (code, errors, peak) = run_measured(&dir, &["empty.csv.gz"]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(errors.contains("1 event"), "{errors}");
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    assert!(peak < 256 * MIB, "{} MiB", peak / MIB);
}

#[test]
fn what_is_huge_once_it_is_decompressed_is_read_as_it_comes() {
    let dir = folder();
    let piece = [b'x'; 65_536];
    write_gz(&dir, "line.csv.gz", "time,name,a\n1,x,5\n2,", &piece, 500);
    write_gz(&dir, "line.jsonl.gz", "{\"time\": 1, \"name\": \"x\", \"a\": 5}\n{\"time\": \"", &piece, 500);
    for name in ["line.csv.gz", "line.jsonl.gz"] {
        let (code, errors, peak) = run_measured(&dir, &[name]);
        assert_eq!(code, Some(2));
        assert!(errors.contains("it is longer than 16777216 bytes"), "{errors}");
        assert!(peak < 512 * MIB, "{name}: {} MiB", peak / MIB);
    }
    let row = format!("1,{},5\n", "x".repeat(MIB));
    write_gz(&dir, "rows.csv.gz", "time,name,a\n", row.as_bytes(), 150);
    let (code, errors, peak) = run_measured(&dir, &["rows.csv.gz"]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(errors.contains("150 events"), "{errors}");
    assert!(peak < 512 * MIB, "{} MiB", peak / MIB);
}

#[test]
fn specifications_and_keys_that_are_too_large_are_refused() {
    let dir = folder();
    let large = format!("// {}\n{FIND}", "x".repeat(2 * MIB));
    for (name, text) in [("large.lola", large.clone()), ("large.toml", large)] {
        std::fs::write(dir.path().join(name), text).unwrap();
        let (code, _, errors) = finish(fairstream().args(["run", name, "x.csv"]).current_dir(dir.path()));
        assert_eq!(code, Some(2));
        let reason = format!("cannot read {name}: it is 2097");
        assert!(errors.contains(&reason) && errors.contains("more than the 1048576 bytes"), "{errors}");
    }
    let (code, _, errors) = finish(fairstream().args(["check", "/dev/zero"]));
    assert_eq!(code, Some(2));
    assert!(errors.contains("cannot read /dev/zero: it is larger than the 1048576 bytes"), "{errors}");
    let spec = crate::support::root().join("specs/guarantee/hiring.toml");
    let spec = spec.to_str().unwrap();
    let evidence = ["--evidence", "evidence.csv", "--hash-keys", "/dev/zero"];
    let (code, _, errors) =
        finish(fairstream().args(["run", spec, "hiring:"]).args(evidence).current_dir(dir.path()));
    assert_eq!(code, Some(2));
    assert!(errors.contains("/dev/zero: it is larger than the 65536 bytes"), "{errors}");
}

#[test]
fn a_row_that_is_cut_off_is_refused() {
    let dir = folder();
    let lines = |rows: &str| format!("time,name,a\n1,x,501\n{rows}");
    let objects = |rows: &str| format!("{{\"time\": 1, \"a\": 501}}\n{rows}");
    for (name, text, reason) in [
        (
            "cut.csv",
            lines("2,x"),
            "row 3: it has 2 fields, but there are 3 column names; the input ends within it",
        ),
        ("cut.csv", lines("2,\"x,5"), "row 3: it has a quote that is not closed: is the input cut off?"),
        ("cut.csv", lines("2,\"x\ny"), "row 3: a quote on line 3 is not closed; lines 3 to 4 are left out"),
        ("cut.jsonl", objects("{\"time\": 2, \"a\": 5"), "row 2: it is cut off"),
        ("cut.jsonl", objects("{\"time\": 2"), "row 2: it is cut off"),
    ] {
        std::fs::write(dir.path().join(name), &text).unwrap();
        let piped = {
            let kind = format!("{}:-", name.split_once('.').unwrap().1);
            let mut command = fairstream();
            command.args(["run", "find.lola", &kind, "-q"]).current_dir(dir.path());
            command.stdin(File::open(dir.path().join(name)).unwrap());
            let output = command.output().unwrap();
            (
                output.status.code(),
                String::from_utf8(output.stdout).unwrap(),
                String::from_utf8(output.stderr).unwrap(),
            )
        };
        for (code, output, errors) in [run(&dir, &[name, "-q"]), piped] {
            assert_eq!(code, Some(3), "{errors}");
            assert!(output.contains("found") && errors.contains(reason), "{text}: {output}{errors}");
        }
        let (code, _, errors) = run(&dir, &[name, "--on-bad-row", "skip", "--max-bad", "100%"]);
        assert_eq!(code, Some(1), "{errors}");
        assert!(errors.contains("skipped") && errors.contains("1 event"), "{errors}");
    }
}

#[test]
fn compressed_text_that_is_cut_off_is_an_error() {
    let dir = folder();
    let text = format!("time,name,a\n1,x,501\n{}", rows(2..=50_000));
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(text.as_bytes()).unwrap();
    let packed = [
        ("cut.csv.gz", gz.finish().unwrap()),
        ("cut.csv.zst", zstd::encode_all(text.as_bytes(), 1).unwrap()),
    ];
    for (name, bytes) in packed {
        for end in [bytes.len() / 2, bytes.len() - 1] {
            std::fs::write(dir.path().join(name), &bytes[..end]).unwrap();
            for policy in ["stop", "skip"] {
                let (code, _, errors) = run(&dir, &[name, "--on-bad-row", policy]);
                assert_eq!(code, Some(3), "{name}, {end} bytes: {errors}");
                assert!(errors.contains("it cannot be decompressed"), "{errors}");
            }
        }
    }
}

#[test]
fn integers_of_json_are_exact_however_they_are_written() {
    let dir = folder();
    let spec = "input u : UInt64\ninput i : Int64\n\
                trigger u = 9007199254740993 \"exact\"\ntrigger u / 10 = 1234567890123456789 \"exact\"\n\
                trigger i = 1000 \"exact\"\ntrigger i = -9007199254740993 \"exact\"\n";
    std::fs::write(dir.path().join("find.lola"), spec).unwrap();
    let lines = |values: &[&str]| {
        let mut text = String::new();
        for (time, value) in (1..).zip(values) {
            writeln!(text, "{{\"time\": {time}, {value}}}").unwrap();
        }
        std::fs::write(dir.path().join("numbers.jsonl"), text).unwrap();
    };
    lines(&[
        "\"u\": 9007199254740993.0",
        "\"u\": 12345678901234567890.0",
        "\"u\": 1.2345678901234567890e19",
        "\"u\": 12345678901234567890",
        "\"i\": 1e3",
        "\"i\": 10.00E+2",
        "\"i\": -9007199254740993.0",
    ]);
    let (code, output, errors) = run(&dir, &["numbers.jsonl", "-q"]);
    assert_eq!(code, Some(1), "{errors}");
    for trigger in ["0  once", "1  3 times", "2  2 times", "3  once"] {
        assert!(output.contains(&format!("trigger_{trigger}")), "{output}");
    }
    for (value, hint) in [
        ("\"i\": 9007199254740993.5", "it is not a whole number"),
        ("\"u\": 1e20", "it is out of range"),
        ("\"i\": 1e99", "it is out of range"),
        ("\"i\": 1e-3", "it is not a whole number"),
    ] {
        lines(&[value]);
        let (code, _, errors) = run(&dir, &["numbers.jsonl", "-q"]);
        assert_eq!(code, Some(2));
        assert!(errors.contains(hint), "{value}: {errors}");
    }
}

#[test]
fn leap_seconds_are_refused_by_name() {
    let dir = folder();
    for (first, leap, format) in [
        ("2016-12-31T23:59:59Z", "2016-12-31T23:59:60Z", "auto"),
        ("2016-12-31 23:59:59.9", "2016-12-31 23:59:60.2", "auto"),
        ("31.12.2016 23:59:59", "31.12.2016 23:59:60", "%d.%m.%Y %H:%M:%S"),
        ("20161231235959", "20161231235960", "%Y%m%d%H%M%S"),
    ] {
        std::fs::write(dir.path().join("leap.csv"), format!("time,a\n{first},501\n{leap},5\n")).unwrap();
        let (code, output, errors) = run(&dir, &["leap.csv", "-q", "--time-format", format]);
        assert_eq!(code, Some(3), "{leap}: {errors}");
        let reason = format!("row 3, column `time`: `{leap}` is a leap second");
        assert!(output.contains("found") && errors.contains(&reason), "{output}{errors}");
    }
}

/// Adds the checksum of its only page to the last column of a Parquet file, as the library writes none.
fn with_checksum(bytes: Vec<u8>) -> Vec<u8> {
    let file = bytes::Bytes::from(bytes);
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&file).unwrap();
    let group = metadata.row_group(0);
    let mut columns = group.columns().to_vec();
    let last = columns.pop().unwrap();
    let (start, length) = last.byte_range();
    let end = usize::try_from(start + length).unwrap();
    let page = &file[usize::try_from(start).unwrap()..end];
    // The header begins with three numbers: the type of the page, and its size without compression and with it.
    let mut at = 0;
    let mut number = 0;
    for _ in 0..3 {
        assert_eq!(page[at], 0x15, "the next field, a number");
        (at, number) = (at + 1, 0);
        for shift in (0..).step_by(7) {
            number |= usize::from(page[at] & 127) << shift;
            at += 1;
            if page[at - 1] < 128 {
                break;
            }
        }
    }
    let data = &page[page.len() - number / 2..];
    let mut checksum = flate2::Crc::new();
    checksum.update(data);
    let checksum = checksum.sum().cast_signed();
    let mut zigzag = ((checksum << 1) ^ (checksum >> 31)).cast_unsigned();
    let mut header = page[..at].to_vec();
    header.push(0x15);
    while zigzag > 127 {
        header.push(u8::try_from(zigzag & 127).unwrap() | 128);
        zigzag >>= 7;
    }
    header.push(u8::try_from(zigzag).unwrap());
    assert_eq!(page[at], 0x2c, "a struct, two fields further");
    header.push(0x1c);
    let changed = [header.as_slice(), &page[at + 1..]].concat();
    let grown = i64::try_from(changed.len()).unwrap();
    columns.push(last.into_builder().set_total_compressed_size(grown).build().unwrap());
    let group = group.clone().into_builder().set_column_metadata(columns).build().unwrap();
    let metadata = metadata.clone().into_builder().set_row_groups(vec![group]).build();
    let mut whole = [&file[..usize::try_from(start).unwrap()], &changed].concat();
    ParquetMetaDataWriter::new(&mut whole, &metadata).finish().unwrap();
    whole
}

/// The checksum of a page is verified where there is one.
#[test]
fn a_page_of_parquet_that_was_changed_is_an_error() {
    let dir = folder();
    let path = dir.path().join("page.parquet");
    let names: ArrayRef = Arc::new(StringArray::from_iter_values((0..1_000).map(|row| format!("{row:010}"))));
    let rows = table(names).project(&[0, 2, 1]).unwrap();
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_offset_index_disabled(true)
        .set_statistics_enabled(EnabledStatistics::None);
    let mut writer = ArrowWriter::try_new(Vec::new(), rows.schema(), Some(properties.build())).unwrap();
    writer.write(&rows).unwrap();
    let mut bytes = with_checksum(writer.into_inner().unwrap());
    std::fs::write(&path, &bytes).unwrap();
    let (code, errors, _) = run_measured(&dir, &["page.parquet"]);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("1,000 events"), "{errors}");

    let at = bytes.windows(10).position(|text| text == b"0000000500").unwrap();
    bytes[at + 9] = b'7';
    std::fs::write(&path, bytes).unwrap();
    let (code, errors, _) = run_measured(&dir, &["page.parquet"]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("page.parquet") && errors.contains("CRC"), "{errors}");
}

/// The arguments of the shell that runs fairstream with at most that many open files.
fn limited(dir: &tempfile::TempDir, files: usize, arguments: &str) -> Command {
    let program = fairstream();
    let mut command = Command::new("sh");
    let script =
        format!("ulimit -n {files} && exec {} run find.lola {arguments}", program.get_program().display());
    command.args(["-c", &script]).current_dir(dir.path()).env("NO_COLOR", "1");
    command
}

/// Files whose times overlap from the first row to the last, more than may be open at once.
#[test]
fn thousands_of_files_that_overlap_are_merged_with_few_open() {
    const FILES: i64 = 2_000;
    const ROWS: i64 = 20;
    for ending in ["csv", "jsonl", "parquet"] {
        let dir = folder();
        std::fs::create_dir(dir.path().join("lake")).unwrap();
        for file in 0..FILES {
            let path = dir.path().join(format!("lake/{file:05}.{ending}"));
            let times = (0..ROWS).map(|row| row * FILES + file + 1);
            let value = |time: i64| if time == FILES * ROWS { 501 } else { 5 };
            match ending {
                "parquet" => {
                    let columns: [(&str, ArrayRef); 2] = [
                        ("time", Arc::new(Int64Array::from_iter_values(times.clone()))),
                        ("a", Arc::new(Int64Array::from_iter_values(times.map(value)))),
                    ];
                    let rows = RecordBatch::try_from_iter(columns).unwrap();
                    let mut writer =
                        ArrowWriter::try_new(File::create(path).unwrap(), rows.schema(), None).unwrap();
                    writer.write(&rows).unwrap();
                    writer.close().unwrap();
                }
                "csv" => {
                    let rows: String = times.map(|time| format!("{time},{}\n", value(time))).collect();
                    std::fs::write(path, format!("time,a\n{rows}")).unwrap();
                }
                _ => {
                    let row = |time| format!("{{\"time\": {time}, \"a\": {}}}\n", value(time));
                    std::fs::write(path, times.map(row).collect::<String>()).unwrap();
                }
            }
        }
        let (code, errors, peak) = measured(&mut limited(&dir, 1_024, "lake"));
        assert_eq!(code, Some(1), "{ending}: {errors}");
        // Rows that were not in order would have stopped it.
        assert!(errors.contains("40,000 events, 1 violation"), "{ending}: {errors}");
        assert!(peak < 1024 * MIB, "{ending}: {} MiB", peak / MIB);

        // A row of a file that waits on disk, with its place.
        let bad = match ending {
            "csv" => format!("time,a\n2000,5\n{},x\n", 2 * FILES),
            "jsonl" => format!("{{\"time\": 2000, \"a\": 5}}\n{{\"time\": {}, \"a\": \"x\"}}\n", 2 * FILES),
            _ => continue,
        };
        let row = if ending == "csv" { 3 } else { 2 };
        std::fs::write(dir.path().join(format!("lake/01999.{ending}")), bad).unwrap();
        let (code, errors, _) = measured(&mut limited(&dir, 1_024, "lake"));
        assert_eq!(code, Some(2));
        assert!(errors.contains(&format!("01999.{ending}: row {row}, column `a`")), "{errors}");
    }
}

/// Inputs on the command line do not take a thread each.
#[test]
fn ten_thousand_inputs_are_read_in_bounded_memory() {
    const FILES: u32 = 10_000;
    let dir = folder();
    let mut inputs = String::new();
    for file in 0..FILES {
        let name = format!("{file:05}.csv");
        let value = if file + 1 == FILES { 501 } else { 5 };
        let rows: String = (0..5).map(|row| format!("{},{value}\n", row * FILES + file + 1)).collect();
        std::fs::write(dir.path().join(&name), format!("time,a\n{rows}")).unwrap();
        write!(inputs, " {name}").unwrap();
    }
    let (code, errors, peak) = measured(&mut limited(&dir, 1_024, &inputs));
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("50,000 events, 5 violations"), "{errors}");
    assert!(peak < 1024 * MIB, "{} MiB", peak / MIB);

    std::fs::write(dir.path().join("00007.csv"), "time,a\n8,5\n10008,x\n").unwrap();
    let (code, errors, _) = measured(&mut limited(&dir, 1_024, &inputs));
    assert_eq!(code, Some(2));
    assert!(errors.contains("00007.csv: row 3, column `a`: `x` is not an Int64"), "{errors}");
}
