//! `fairstream generate`: its messages, and that its output can be read.

use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray,
};
use fairstream_core::{
    ColumnValues, EventBatch, EventWriterFactory, EventWriterRequest, Position, SourceContext, SourceFactory,
    SourceRequest, TimeFormat, WantedColumn,
};
use fairstream_csv::{CsvEventWriters, CsvSources};
use fairstream_json::JsonEventWriters;
use insta::assert_snapshot;

use crate::cli::Folder;

const SCORES: &str = "id,compas_screening_date,race,decile_score,is_recid,r_offense_date\n";

#[test]
fn help_says_what_there_is() {
    let folder = Folder::new();
    assert_snapshot!("help", folder.run("generate --help"));
    assert_snapshot!("help_hiring", folder.run("generate hiring --help"));
    assert_snapshot!("help_seminar", folder.run("generate seminar --help"));
    assert_snapshot!("help_admissions", folder.run("generate admissions --help"));
    assert_snapshot!("help_compas", folder.run("generate compas --help"));
}

#[test]
fn every_scenario_in_every_format() {
    let people = "2,2013-05-02,Other,7,1,2013-06-01\n1,2013-04-01,\"A, B\",1,0,\n3,2013-04-01,Other,-1,0,\n";
    let folder = Folder::new().file("scores.csv", format!("{SCORES}{people}"));
    assert_snapshot!("hiring", folder.run("generate hiring --applicants 6 --seed 7"));
    assert_snapshot!("seminar", folder.run("generate seminar --applicants 5 --places 1 --seminars 2 --to -"));
    assert_snapshot!("admissions", folder.run("generate admissions --applicants 4 --to csv:- -q"));
    assert_snapshot!("compas", folder.run("generate compas scores.csv"));
    assert_snapshot!("compas_jsonl", folder.run("generate compas scores.csv --to - -q"));
}

#[test]
fn arguments_that_do_not_fit() {
    let folder = Folder::new()
        .file("scores.csv", format!("{SCORES}1,2013-04-01,Other,1,0,\n2,2013-05-02,Other,seven,0,\n"))
        .file("other.csv", "id,date,group\n");
    for (name, arguments) in [
        ("no_scenario", "generate"),
        ("unknown_scenario", "generate hirings"),
        ("unknown_flag", "generate hiring --place 3"),
        ("bad_number", "generate hiring --applicants many"),
        ("bad_groups", "generate hiring --accept M:0.5"),
        ("bad_probability", "generate hiring --accept M=0.5,F=1.2"),
        ("unknown_group", "generate seminar --late W=0.5"),
        ("unknown_algorithm", "generate seminar --algorithm equalgender"),
        ("too_many", "generate admissions --applicants 1000000000000"),
        ("bad_every", "generate admissions --every 5"),
        ("compas_no_file", "generate compas"),
        ("compas_missing_file", "generate compas nowhere.csv"),
        ("compas_bad_row", "generate compas scores.csv"),
        ("compas_no_columns", "generate compas other.csv"),
        ("compas_no_group", "generate compas scores.csv --group rase"),
        ("compas_to_input", "generate compas scores.csv --to ./scores.csv"),
        ("to_unknown_ending", "generate hiring --to events.xls"),
        ("to_option", "generate hiring --to events.csv?delimiter=;"),
        ("to_no_folder", "generate hiring --to nowhere/events.csv"),
        ("run_location", "run spec.lola hiring:x"),
        ("run_option", "run spec.lola hiring:?sead=1"),
        ("run_columns", "run spec.lola admissions:"),
    ] {
        assert_snapshot!(name, folder.run(arguments));
    }
    assert!(folder.read("scores.csv").ends_with("seven,0,\n"), "the input is as it was");
}

#[test]
fn a_mistake_leaves_existing_files_alone() {
    let folder = Folder::new().file("keep.csv", "precious").file("scores.csv", format!("{SCORES}x\n"));
    for mistake in ["hiring --seed x", "seminar --late F=2", "compas nowhere.csv", "compas scores.csv"] {
        let output = folder.run(&format!("generate {mistake} --to keep.csv"));
        assert!(output.contains("exit code 2"), "{output}");
        assert_eq!(folder.read("keep.csv"), "precious", "{mistake}");
    }
}

/// The same seed gives the same bytes; and a scenario is the same input with and without a file in between.
#[test]
fn the_way_through_a_file_changes_nothing() {
    let specs = crate::support::root().join("specs/rtlola");
    let read = |name: &str| std::fs::read(specs.join(name)).unwrap();
    let folder =
        Folder::new().file("hiring.lola", read("hiring.lola")).file("seminar.lola", read("seminar.lola"));
    for (scenario, flags, options) in [
        ("hiring", "--applicants 300 --seed 5", "applicants=300&seed=5"),
        ("seminar", "--applicants 300 --late F=0.5", "applicants=300&late=F=0.5"),
    ] {
        let verdicts = |input: &str| {
            let run = folder.run(&format!("run {scenario}.lola {input} --to -?select=changes"));
            run.split_once('\n').unwrap().1.to_owned()
        };
        let direct = verdicts(&format!("{scenario}:?{options}"));
        assert!(direct.lines().count() > 1000, "{direct}");
        for file in ["a.csv", "b.csv", "c.csv.gz", "d.csv.zst"] {
            folder.run(&format!("generate {scenario} {flags} --to {file}"));
            assert_eq!(verdicts(file), direct, "{scenario} through {file}");
        }
        assert_eq!(folder.read("a.csv"), folder.read("b.csv"));
        folder.run(&format!("generate {scenario} --applicants 300 --seed 6 --to c.csv"));
        assert_ne!(folder.read("a.csv"), folder.read("c.csv"));
    }
}

/// Events of every type that text formats support.
fn all_types() -> RecordBatch {
    let columns: [(&str, ArrayRef); 6] = [
        ("bool", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
        ("int", Arc::new(Int64Array::from(vec![Some(i64::MIN), Some(0), None]))),
        ("float", Arc::new(Float64Array::from(vec![Some(0.1), Some(1e300), Some(f64::INFINITY)]))),
        ("text", Arc::new(StringArray::from(vec![Some("a, \"b\"\r\nc"), None, Some(" ü ")]))),
        ("bytes", Arc::new(BinaryArray::from_opt_vec(vec![None, Some(b"\x00\xff"), Some(b"a")]))),
        (
            "fixed",
            Arc::new(
                Decimal128Array::from(vec![Some(15), None, Some(-1)])
                    .with_precision_and_scale(28, 2)
                    .unwrap(),
            ),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

#[test]
fn csv_that_is_written_is_read_as_the_same_events() {
    let dir = tempfile::tempdir().unwrap();
    let rows = all_types();
    let schema = rows.schema();
    let events =
        EventBatch::new(rows, vec![-1_i64, 0, 1_500_000_000], vec![1_u64, 2, 3], Position::default());
    for format in [TimeFormat::Rfc3339, TimeFormat::Relative, TimeFormat::Nanos] {
        let location = dir.path().join("events.csv").to_str().unwrap().to_owned();
        let request = EventWriterRequest {
            location: location.clone(),
            schema: Arc::clone(&schema),
            time_format: format.clone(),
            ..EventWriterRequest::default()
        };
        let mut writer = CsvEventWriters.open(&request).unwrap();
        writer.write(&events).unwrap();
        writer.finish().unwrap();
        let wanted = schema.fields().iter();
        let wanted = wanted.map(|field| WantedColumn::new(field.name(), field.data_type().clone()));
        let request = SourceRequest {
            location,
            options: [("time_format", format.name())].into_iter().collect(),
            wanted: wanted.collect(),
            context: SourceContext { max_rows: NonZeroUsize::new(10).unwrap(), ..SourceContext::default() },
            ..SourceRequest::default()
        };
        let read = CsvSources.open(&request).unwrap().next_batch().unwrap().unwrap();
        assert!(read.rejected.is_empty(), "{:?}", read.rejected);
        assert_eq!((&read.rows, &read.times), (&events.rows, &events.times), "{format:?}");
    }
}

#[test]
fn json_lines_say_what_the_events_say() {
    let dir = tempfile::tempdir().unwrap();
    let location = dir.path().join("events.jsonl").to_str().unwrap().to_owned();
    let rows = all_types();
    let request = EventWriterRequest {
        location: location.clone(),
        schema: rows.schema(),
        ..EventWriterRequest::default()
    };
    let events = EventBatch::new(rows, vec![0_i64, 1, 2], vec![1_u64, 2, 3], Position::default());
    let mut writer = JsonEventWriters.open(&request).unwrap();
    writer.write(&events).unwrap();
    writer.finish().unwrap();
    let text = std::fs::read_to_string(location).unwrap();
    for (row, line) in text.lines().enumerate() {
        let json: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(json["time"], events.time(row).to_string());
        for (index, field) in events.rows.schema().fields().iter().enumerate() {
            let value =
                ColumnValues::of(events.rows.column(index)).unwrap().at(row).map(|value| value.to_string());
            let found = json.get(field.name()).map(|found| match found {
                serde_json::Value::String(text) => text.clone(),
                serde_json::Value::Number(number) if field.name() == "float" => {
                    number.as_f64().unwrap().to_string()
                }
                other => other.to_string(),
            });
            assert_eq!(found, value, "{line}");
        }
    }
}

#[cfg(unix)]
mod process {
    use std::io::{BufRead, BufReader};

    use crate::process::{Folder, end, interrupt, wait_for};

    #[test]
    fn ctrl_c_leaves_whole_rows() {
        for name in ["events.csv", "events.jsonl"] {
            let folder = Folder::new("");
            let child = folder.start(&[
                "generate",
                "hiring",
                "--applicants",
                "100000000",
                "--every",
                "1s",
                "--to",
                name,
            ]);
            let path = folder.path(name);
            wait_for("some rows", || path.metadata().is_ok_and(|meta| meta.len() > 100_000));
            interrupt(&child);
            let (code, _, err) = end(child);
            assert_eq!(code, 130, "{err}");
            let text = std::fs::read_to_string(path).unwrap();
            assert!(text.ends_with('\n'), "the last row is whole");
            let whole = |line: &str| match name {
                "events.csv" => line.split(',').count() == 4,
                _ => serde_json::from_str::<serde_json::Value>(line).is_ok(),
            };
            let rows = text.lines().inspect(|line| assert!(whole(line), "{line}")).count();
            let count = err.lines().last().unwrap().split(' ').next().unwrap().replace(',', "");
            let header = usize::from(name == "events.csv");
            assert_eq!(count.parse::<usize>().unwrap(), rows - header, "{err}");
        }
    }

    #[test]
    fn ctrl_c_leaves_a_compressed_file_that_can_be_read() {
        let folder = Folder::new("input id : UInt64\ntrigger id = 1 \"first\"\n");
        let child =
            folder.start(&["generate", "admissions", "--applicants", "100000000", "--to", "e.csv.gz"]);
        let path = folder.path("e.csv.gz");
        wait_for("some rows", || path.metadata().is_ok_and(|meta| meta.len() > 10_000));
        interrupt(&child);
        let (code, _, err) = end(child);
        assert_eq!(code, 130, "{err}");
        let written = err.lines().last().unwrap().split(' ').next().unwrap().to_owned();
        let (code, _, err) = end(folder.start(&["run", "spec.lola", "e.csv.gz"]));
        assert_eq!(code, 1, "{err}");
        assert!(err.starts_with(&format!("{written} events, 1 violation")), "{err}");
    }

    #[test]
    fn ctrl_c_leaves_columns_that_can_be_read() {
        let folder = Folder::new("input id : UInt64\ntrigger id = 1 \"first\"\n");
        for name in ["e.parquet", "e.arrow", "e.arrows"] {
            let child = folder.start(&["generate", "admissions", "--applicants", "100000000", "--to", name]);
            let path = folder.path(name);
            wait_for("some rows", || path.metadata().is_ok_and(|meta| meta.len() > 10_000));
            interrupt(&child);
            let (code, _, err) = end(child);
            assert_eq!(code, 130, "{err}");
            let written = err.lines().last().unwrap().split(' ').next().unwrap().to_owned();
            let (code, _, err) = end(folder.start(&["run", "spec.lola", name]));
            assert_eq!(code, 1, "{err}");
            assert!(err.starts_with(&format!("{written} events, 1 violation")), "{err}");
        }
    }

    #[test]
    fn ctrl_c_leaves_verdicts_that_can_be_read() {
        let folder = Folder::new("input id : UInt64\ninput kind : String\ntrigger id > 0 \"an id\"\n");
        let input = "admissions:?applicants=100000000";
        let columns = "verdicts.parquet?time=time&columns=kind:kind,id:uint";
        let child = folder.start(&[
            "run",
            "spec.lola",
            &format!("{input}&columns=kind:gender"),
            "--to",
            "verdicts.parquet",
            "-q",
        ]);
        let path = folder.path("verdicts.parquet");
        wait_for("some verdicts", || path.metadata().is_ok_and(|meta| meta.len() > 10_000));
        interrupt(&child);
        let (code, _, err) = end(child);
        assert_eq!(code, 130, "{err}");
        let (code, _, err) = end(folder.start(&["run", "spec.lola", columns]));
        assert_eq!(code, 0, "{err}");
        assert!(!err.starts_with("0 events"), "{err}");
    }

    #[test]
    fn a_reader_that_hangs_up_ends_it_quietly() {
        let folder = Folder::new("");
        for to in ["csv:-", "-"] {
            let mut child = folder.start(&["generate", "hiring", "--applicants", "10000000", "--to", to]);
            let mut first = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
            assert!(!first.is_empty());
            let (code, _, err) = end(child);
            assert_eq!((code, err.as_str()), (0, ""), "{to}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_is_an_error() {
        let (code, _, err) = end(Folder::new("").start(&["generate", "hiring", "--to", "csv:/dev/full"]));
        assert_eq!(code, 2);
        assert!(err.starts_with("error: cannot write /dev/full: No space left on device"), "{err}");
    }
}
