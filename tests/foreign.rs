//! Files that other programs wrote: `make_foreign.py` and `make_json.py` in `tests/data` document how. The same
//! events in all of them must give the same verdicts; unreadable files must be refused with a message.

use std::path::Path;

use crate::support::{fairstream, root};

/// Exit code, standard output and standard error.
fn run(arguments: &[&str]) -> (i32, String, String) {
    let output = fairstream().args(arguments).current_dir(root().join("tests/data")).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let err = text(&output.stderr);
    assert!(!err.contains("panicked") && !err.contains("backtrace"), "{err}");
    (output.status.code().unwrap_or(-1), text(&output.stdout), err)
}

fn changes(input: &str, more: &[&str]) -> String {
    let (code, out, err) =
        run(&[&["run", "foreign.lola", input, "--to", "-?select=changes", "-q"], more].concat());
    assert_eq!(code, 1, "{input}: {err}");
    out
}

/// Files in `tests/data/json`; `make_json.py` documents how they were written.
const JSON: [&str; 9] = [
    "json/python.jsonl",
    "json/python_utf8.jsonl",
    "json/python_compact.jsonl",
    "json/python_absent.jsonl",
    "json/python_nested.jsonl?columns=id:is.id,gender:is.gender,salary:is.salary,accepted:is.accepted,region:is.region,date:is.date",
    "json/jq.jsonl",
    "json/jq_from_array.jsonl",
    "json/jq_ascii_sorted.jsonl",
    "json/jq_texts.jsonl",
];

const FILES: [&str; 17] = [
    "foreign/pyarrow_snappy.parquet",
    "foreign/pyarrow_zstd_v2.parquet",
    "foreign/pyarrow_gzip_v1.parquet",
    "foreign/pyarrow_lz4.parquet",
    "foreign/pyarrow_int96.parquet",
    "foreign/pyarrow_epoch_ms.parquet",
    "foreign/pyarrow_view.parquet",
    "foreign/pyarrow_nested.parquet?columns=id:applicant.id,gender:applicant.gender",
    "foreign/pyarrow_lake",
    "parquet:foreign/pyarrow_lake/**/*.parquet",
    "foreign/pyarrow_lake?sort=true",
    "foreign/pyarrow.feather",
    "foreign/pyarrow.arrows",
    "foreign/polars.parquet",
    "foreign/polars.arrow",
    "foreign/duckdb.parquet",
    "foreign/duckdb_lake/",
];

#[test]
fn the_same_events_give_the_same_verdicts() {
    let expected = changes("foreign/events.csv", &[]);
    assert!(expected.lines().count() > 500);
    for input in FILES.iter().chain(&JSON) {
        assert_eq!(changes(input, &[]), expected, "{input}");
    }
    let files = ["foreign", "json"]
        .into_iter()
        .flat_map(|folder| std::fs::read_dir(root().join("tests/data").join(folder)).unwrap());
    for file in files.map(|file| file.unwrap().file_name().into_string().unwrap()) {
        let known = FILES.iter().chain(&JSON).any(|known| known.contains(&file));
        assert!(known || file.starts_with("bad_") || file == "events.csv", "no test covers {file}");
    }
}

#[test]
fn a_part_of_the_time_is_the_same_part_of_every_file() {
    let span = ["--since", "2026-01-01T20:00:00Z", "--until", "2026-01-02T03:00:00Z"];
    let expected = changes("foreign/events.csv", &span);
    for input in FILES.iter().chain(&JSON) {
        assert_eq!(changes(input, &span), expected, "{input}");
    }
}

#[test]
fn what_cannot_be_read_is_refused_in_words() {
    for (input, reason) in [
        ("foreign/bad_brotli.parquet", "column `time` is compressed with BROTLI"),
        ("foreign/bad_cut.parquet", "it is cut off: its footer is missing"),
        ("foreign/bad_footer.parquet", "its footer is damaged"),
        ("foreign/bad_encrypted.parquet", "it is encrypted"),
        ("parquet:foreign.lola", "it is not a Parquet file"),
        ("arrow:foreign.lola", "it is not an Arrow file or stream"),
        ("parquet:foreign/polars.arrow", "it is an Arrow file; write `arrow:` in front of it"),
        ("arrow:foreign/polars.parquet", "it is a Parquet file; write `parquet:` in front of it"),
        ("foreign/nowhere.parquet", "No such file or directory"),
        ("parquet:foreign/nowhere*.parquet", "no file matches the pattern"),
        ("../../specs", "there is no file below it whose name ends in .parquet"),
        ("parquet:-", "Parquet cannot be read from a pipe"),
        ("foreign/polars.parquet?time=accepted", "column `accepted` is Boolean, which does not say when"),
        ("foreign/polars.parquet?time=day", "there is no column `day` that says when a row happened"),
        (
            "foreign/pyarrow_nested.parquet?columns=id:applicant",
            "column `id` of foreign/pyarrow_nested.parquet is Struct",
        ),
        ("foreign/pyarrow_nested.parquet?columns=id:tags", "is List("),
        (
            "foreign/pyarrow_lake?columns=id:gender",
            "region=__HIVE_DEFAULT_PARTITION__/part-0.parquet: column `gender` is Dictionary(Int32, Utf8), but the specification reads it as UInt64",
        ),
        ("foreign/pyarrow_lake?columns=salary:region", "from the name of its folder: `eu` is not a Float64"),
        ("foreign/polars.parquet?sort=yes", "option `sort=yes`"),
        ("json/bad_python_array.json", "row 1: it is an array; write one object a line (`jq -c '.[]'`"),
        ("json/bad_python_indent.json", "row 1: it is cut off: an object has to end on the line"),
        ("json/bad_jq_indent.json", "row 1: it is cut off: an object has to end on the line"),
        ("json/bad_python_nan.jsonl", "row 1: it is not JSON: expected value at character"),
        ("json/bad_jq_seq.jsonl", "row 1: it is not JSON: expected value at character 1"),
    ] {
        let (code, _, err) = run(&["run", "foreign.lola", input, "-q"]);
        assert_eq!(code, 2, "{input}: {err}");
        assert!(err.contains(reason), "{input}: {err}");
        let location = input.split(['?', ':']).find(|part| part.contains(['/', '.']));
        assert!(location.is_none_or(|location| err.contains(location)), "{input}: {err}");
    }
}

/// Damage at any position gives an error or other values, never a panic.
#[test]
fn damage_is_never_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    let spec = root().join("tests/data/foreign.lola");
    for name in ["pyarrow_snappy.parquet", "polars.parquet", "pyarrow.arrows", "polars.arrow"] {
        let whole = std::fs::read(root().join("tests/data/foreign").join(name)).unwrap();
        let path = dir.path().join(name);
        for part in 0..24 {
            let at = whole.len() * part / 24;
            let mut bytes = whole.clone();
            bytes[at] ^= 0x55;
            std::fs::write(&path, &bytes).unwrap();
            check(&spec, &path, "changed", at);
            std::fs::write(&path, &whole[..at]).unwrap();
            check(&spec, &path, "cut off", at);
        }
    }

    fn check(spec: &Path, path: &Path, what: &str, at: usize) {
        let output = fairstream().arg("run").arg(spec).arg(path).arg("-q").output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0..=3)), "{} {what} at {at}: {err}", path.display());
        assert!(!err.contains("panicked"), "{} {what} at {at}: {err}", path.display());
    }
}
