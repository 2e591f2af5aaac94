//! Plugins that fulfil the contract work like built-in adapters; plugins that violate it are refused with a
//! message.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use arrow::datatypes::DataType;
use fairstream_core::compliance::{BadInput, SourceCase, check_source};
use fairstream_core::{SourceFactory, SourceRequest, WantedColumn};
use fairstream_plugin::PluginSources;

use crate::process::{Folder, wait_for};
use crate::support::{fairstream, root};

/// The plugin of `examples/plugin-rust`, which cargo has built with the tests.
pub(crate) fn rust_plugin() -> PathBuf {
    // Referenced so that cargo links it.
    let _ = plugin_rust::LogSources;
    let folder = Path::new(fairstream().get_program()).parent().unwrap().join("deps");
    folder.join(format!("{}plugin_rust{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX))
}

/// Compiles a plugin that is written in C.
pub(crate) fn c_plugin(source: &Path, options: &[&str], to: &Path) {
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I"])
        .arg(root().join("crates/plugin-abi/include"))
        .args(options)
        .arg("-o")
        .arg(to)
        .arg(source)
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
}

/// A folder with the hiring specification and a plugin `p.so` in it.
fn folder_with(source: &str, options: &[&str]) -> Folder {
    let spec = std::fs::read_to_string(root().join("specs/rtlola/hiring.lola")).unwrap();
    let folder = Folder::new(&spec);
    c_plugin(&root().join(source), options, &folder.path("p.so"));
    folder
}

fn misbehaving(entry: &str) -> Folder {
    folder_with("tests/plugins/misbehaving.c", &[&format!("-DENTRY={entry}")])
}

fn run(folder: &Folder, arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = folder.start(arguments).wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// The log of the example as CSV.
fn log_as_csv() -> String {
    let log = std::fs::read_to_string(root().join("examples/plugin-rust/decisions.log")).unwrap();
    let row = |line: &str| {
        let word = |key: &str| {
            let word = line.split(' ').find_map(|word| word.strip_prefix(&format!("{key}=")));
            word.unwrap_or_default().to_owned()
        };
        let time = line.split(' ').next().unwrap();
        format!("{time},{},{},{}\n", word("id"), word("gender"), word("accepted"))
    };
    "time,id,gender,accepted\n".to_owned() + &log.lines().map(row).collect::<String>()
}

#[test]
fn a_plugin_in_rust_says_what_the_built_in_source_says() {
    let folder = folder_with("examples/plugin-c/applicants.c", &[]);
    std::fs::write(folder.path("log.csv"), log_as_csv()).unwrap();
    let log = root().join("examples/plugin-rust/decisions.log");
    let plugin = format!("plugin:{}?file={}", rust_plugin().display(), log.display());
    for select in ["triggers", "changes"] {
        let to = format!("-?select={select}");
        let (code, expected, _) = run(&folder, &["run", "spec.lola", "log.csv", "--to", &to, "-q"]);
        assert_eq!(code, Some(1));
        let (code, found, _) = run(&folder, &["run", "spec.lola", &plugin, "--to", &to, "-q"]);
        assert_eq!((code, found), (Some(1), expected));
    }
}

#[test]
fn a_plugin_in_c_says_what_its_events_say() {
    let folder = folder_with("examples/plugin-c/applicants.c", &[]);
    // The rows of the plugin, from a specification that emits its inputs.
    let repeat = "input id : UInt64\ninput gender : String\ninput accepted : UInt64\n\
        output i := id\noutput g := gender\noutput a := accepted\n";
    std::fs::write(folder.path("repeat.lola"), repeat).unwrap();
    let input = "plugin:./p.so?n=500&seed=7";
    let (code, values, error) =
        run(&folder, &["run", "repeat.lola", input, "--to", "-?select=changes", "-q"]);
    assert_eq!(code, Some(0), "{error}");
    let mut rows: Vec<[String; 4]> = Vec::new();
    for line in values.lines() {
        let verdict: serde_json::Value = serde_json::from_str(line).unwrap();
        let time = verdict["time"].as_str().unwrap().to_owned();
        if rows.last().is_none_or(|row| row[0] != time) {
            rows.push([time, String::new(), String::new(), String::new()]);
        }
        let column = ["i", "g", "a"].iter().position(|stream| verdict["stream"] == **stream).unwrap();
        rows.last_mut().unwrap()[column + 1] = verdict["value"].to_string().replace('"', "");
    }
    let rows: String = rows.iter().map(|row| row.join(",") + "\n").collect();
    std::fs::write(folder.path("events.csv"), format!("time,id,gender,accepted\n{rows}")).unwrap();
    let since = ["--since", "1970-01-01T00:00:00Z", "--to", "-", "-q"];
    let verdicts = |input: &str| run(&folder, &[&["run", "spec.lola", input], &since[..]].concat());
    let (code, expected, error) = verdicts("events.csv");
    assert!(code == Some(1) && expected.lines().count() > 100, "{error}");
    assert_eq!(verdicts(input), (code, expected, error));
}

#[test]
fn a_plugin_complies() {
    check_rust_plugin(&PluginSources);
}

/// The compliance suite on the example plugin in Rust, as sources of this kind.
pub(crate) fn check_rust_plugin(factory: &dyn SourceFactory) {
    let dir = tempfile::tempdir().unwrap();
    let request = |name: &str, log: &str| {
        let file = dir.path().join(name);
        if !log.is_empty() {
            std::fs::write(&file, log).unwrap();
        }
        SourceRequest {
            location: rust_plugin().to_str().unwrap().to_owned(),
            options: [("file", file.to_str().unwrap())].into_iter().collect(),
            wanted: vec![
                WantedColumn::new("id", DataType::UInt64),
                WantedColumn::new("gender", DataType::Utf8),
                WantedColumn::new("elsewhere", DataType::Int64),
            ],
            ..SourceRequest::default()
        }
    };
    check_source(&SourceCase {
        factory,
        good: request("good.log", "1 id=1 gender=F\n2 id=2\n3.5 gender=M\n4\n5 id=5 more=1\n"),
        rows: 5,
        bad: Some(BadInput {
            request: request("bad.log", "1 id=1\n2 id=2\n3 id=x\n4 id=4\n"),
            row: 3,
            column: Some("id"),
        }),
        missing: request("missing.log", ""),
        cut_off: None,
        live: None,
    });
}

#[test]
fn what_is_wrong_with_a_plugin_is_said_before_it_is_used() {
    for (entry, expected) in [
        ("REFUSES", "it does not start: it wants a newer host"),
        ("SAYS_NOTHING", "it does not start: it gives no reason (code 6)"),
        (
            "SMALL",
            "its FairstreamPlugin has 16 bytes, and 80 are needed; build it with the header of this version",
        ),
        ("NOTHING", "it is broken: it has neither a source nor a sink"),
        ("ABOUT_IS_NOT_JSON", "it is broken: its description is not as the header says"),
        ("NAME_IS_NOT_TEXT", "it is broken: its name is not text"),
        (
            "FINE -Dfairstream_plugin_v1=other",
            "it is not a plugin: it has no function `fairstream_plugin_v1`",
        ),
    ] {
        let options: Vec<String> = format!("-DENTRY={entry}").split(' ').map(str::to_owned).collect();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let folder = folder_with("tests/plugins/misbehaving.c", &options);
        for arguments in [&["run", "spec.lola", "plugin:p.so"][..], &["adapters", "--plugin", "p.so"]] {
            let (code, _, error) = run(&folder, arguments);
            assert!(code == Some(2) && error.contains(expected), "{entry}: {code:?} {error}");
            assert!(error.contains("p.so"), "{error}");
        }
    }
    let folder = Folder::new("input id : UInt64\ntrigger id > 1\n");
    std::fs::write(folder.path("p.so"), "not a library").unwrap();
    let (code, _, error) = run(&folder, &["run", "spec.lola", "plugin:p.so"]);
    assert!(code == Some(2) && error.contains("cannot open p.so"), "{error}");
    let (code, _, error) = run(&folder, &["run", "spec.lola", "plugin:missing.so"]);
    assert!(code == Some(2) && error.contains("cannot open missing.so"), "{error}");
}

#[test]
fn what_a_source_does_wrong_ends_the_run_with_its_name() {
    let folder = misbehaving("FINE");
    let (code, _, error) = run(&folder, &["run", "spec.lola", "plugin:p.so"]);
    // Neither this plugin nor another source has a column `accepted`.
    assert!(code == Some(2) && error.contains("there is no column `accepted`"), "{error}");
    let spec = "input id : UInt64\ninput gender : String\ntrigger id > 2 \"large\"\n";
    std::fs::write(folder.path("spec.lola"), spec).unwrap();
    let (code, out, error) = run(&folder, &["run", "spec.lola", "plugin:p.so", "--to", "-", "-q"]);
    assert_eq!((code, out.lines().count()), (Some(1), 7), "{error}");
    for (mode, expected, before) in [
        ("no time", "it gives no column `_time`", 0),
        ("other type", "its column `id` is Int32, but UInt64 is wanted", 0),
        ("unwanted column", "it gives a column `salary`, which was not requested", 0),
        ("column twice", "it gives a column `id` twice", 0),
        ("unknown type", "its schema is none", 0),
        ("no schema", "it gives no reason (code 5)", 0),
        ("does not open", "cannot open p.so: it is closed", 0),
        ("does not open and is silent", "cannot open p.so: it gives no reason (code 3)", 0),
        ("error with a zero", "cannot open p.so: before", 0),
        ("small source", "its FairstreamSource has 8 bytes, and 48 are needed", 0),
        ("functions are missing", "a function is missing that the header asks for", 0),
        // The rows before the failure are evaluated.
        ("fails in the middle", "cannot read p.so (misbehaving 0) after row 3: the wire was cut", 1),
        ("rows go back", "it gives row 1 after row 1", 0),
        (
            "offsets go back",
            "a batch whose column `gender` has a text that ends at byte 0 and begins at 1",
            0,
        ),
        ("not text", "it gives a batch that is none", 0),
        ("negative length", "it gives a batch of -1 rows", 0),
        ("length beyond measure", "it gives a batch of 9223372036854775807 rows", 0),
        (
            "columns of other lengths",
            "a batch whose column `id` has 1000000 values, where the batch has 3",
            0,
        ),
        ("too few columns", "a batch of 1 columns, where its schema has 4", 0),
        ("too few buffers", "a batch whose column `gender` has 1 buffers, where a Utf8 has 3", 0),
        ("no values", "a batch whose column `id` has no values", 0),
        ("more nulls than rows", "a batch whose column `id` has 99 nulls among 3 values", 0),
        ("no progress", "it has lost count", 0),
    ] {
        // An alarm before the error is not hidden by it.
        let failed = if before > 0 { 3 } else { 2 };
        for isolate in [false, true] {
            let input = format!("plugin:p.so?mode={mode}&isolate={isolate}");
            let (code, out, error) = run(&folder, &["run", "spec.lola", &input, "--to", "-", "-q"]);
            assert!(code == Some(failed) && error.contains(expected), "{input}: {code:?} {error}");
            assert!(error.contains("p.so"), "{input}: {error}");
            assert_eq!(out.lines().count(), before, "{input}: {out}");
        }
    }
}

#[test]
fn what_a_sink_does_wrong_ends_the_run_with_its_name() {
    let folder = misbehaving("FINE");
    let spec = "input id : UInt64\ninput gender : String\ntrigger id > 2 \"large\"\n";
    std::fs::write(folder.path("spec.lola"), spec).unwrap();
    for (mode, code, expected) in [
        ("", Some(1), ""),
        ("sink fails", Some(3), "cannot write p.so (misbehaving 0): the disk is full"),
        ("sink does not finish", Some(3), "cannot write p.so (misbehaving 0): it is not done yet"),
        ("small sink", Some(2), "its FairstreamSink has 8 bytes, and 48 are needed"),
        ("sink hangs up", Some(1), ""),
    ] {
        for isolate in [false, true] {
            let to = format!("plugin:p.so?mode={mode}&isolate={isolate}");
            let (found, _, error) = run(&folder, &["run", "spec.lola", "plugin:p.so", "--to", &to, "-q"]);
            assert!(found == code && error.contains(expected), "{to}: {found:?} {error}");
        }
    }
}

#[test]
fn a_source_that_hangs_is_cancelled() {
    let folder = misbehaving("FINE");
    let spec = "input id : UInt64\ninput gender : String\ntrigger id > 2 \"large\"\n";
    std::fs::write(folder.path("spec.lola"), spec).unwrap();
    let child = folder.start(&["run", "spec.lola", "plugin:p.so?mode=hangs", "--to", "out.jsonl"]);
    wait_for("a verdict", || crate::process::lines(&folder.path("out.jsonl")) == 1);
    let asked = Instant::now();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(asked.elapsed() < Duration::from_secs(5));
    assert_eq!(crate::process::lines(&folder.path("out.jsonl")), 1);
}
