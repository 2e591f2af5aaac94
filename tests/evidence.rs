//! `run --evidence` and `explain`: every alarm of every example is recomputed, in every format.

use std::path::Path;

use insta::assert_snapshot;

use crate::cli::Folder;
use crate::support::{fairstream, root};

/// Runs a command in a folder. Returns the exit code and the output.
fn run(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let done = fairstream().args(arguments).current_dir(folder).output().unwrap();
    let text = [done.stdout, done.stderr].concat();
    (done.status.code().unwrap(), String::from_utf8(text).unwrap())
}

fn spec(name: &str) -> String {
    root().join("specs").join(name).to_str().unwrap().to_owned()
}

/// Runs a fairness file, and recomputes each of its alarms. Returns their number.
fn all_alarms(name: &str, input: &str, more: &[&str], ending: &str) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let (verdicts, evidence) = (format!("verdicts.{ending}"), format!("evidence.{ending}"));
    let spec = spec(name);
    let mut arguments = vec!["run", &spec, input, "-q", "--evidence", &evidence];
    let to = format!("{verdicts}?select=alarms");
    arguments.extend(["--to", &to]);
    arguments.extend(more);
    let (code, text) = run(folder.path(), &arguments);
    assert!(code < 2, "{name} {input}: {text}");
    for number in 1.. {
        let alarm = number.to_string();
        let (code, text) = run(folder.path(), &["explain", &verdicts, &evidence, "--alarm", &alarm]);
        if code != 0 {
            assert!(
                text.contains("has no alarm") || text.contains("and no number"),
                "{name} {input}: {text}"
            );
            return number - 1;
        }
        assert!(text.ends_with("has the same message, to the last digit.\n"), "{text}");
    }
    0
}

#[test]
fn every_alarm_of_every_example_is_recomputed() {
    for ending in ["jsonl", "parquet", "csv", "arrow"] {
        let hiring = "hiring:?seed=2";
        assert_eq!(all_alarms("guarantee/hiring.toml", hiring, &[], ending), 1, "{ending}");
    }
    let example = root().join("examples/hiring/events.csv");
    let example = example.to_str().unwrap();
    assert_eq!(all_alarms("guarantee/hiring.toml", example, &[], "jsonl"), 0);
    assert_eq!(all_alarms("guarantee/admissions.toml", "admissions:", &[], "jsonl"), 2);
    let three = "hiring:?accept=A=0.5,B=0.35,C=0.1&share=A=5,B=3,C=1&applicants=4000";
    assert_eq!(all_alarms("guarantee/hiring.toml", three, &[], "jsonl"), 1);
}

/// COMPAS, by the rule of the paper and with a guarantee.
#[test]
fn every_alarm_of_compas_is_recomputed() {
    let scores = std::env::var("FAIRSTREAM_COMPAS")
        .map_or_else(|_| root().join("../shared/data/compas-scores.csv"), std::path::PathBuf::from);
    if !scores.is_file() {
        eprintln!("SKIPPED: no COMPAS data; set FAIRSTREAM_COMPAS to compas-scores.csv");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let scores = scores.canonicalize().unwrap();
    let (code, text) =
        run(folder.path(), &["generate", "compas", scores.to_str().unwrap(), "--to", "events.csv", "-q"]);
    assert_eq!(code, 0, "{text}");
    let events = folder.path().join("events.csv");
    for name in ["compas.toml", "guarantee/compas.toml"] {
        let alarms = all_alarms(name, events.to_str().unwrap(), &["--until", "2018-12-31"], "parquet");
        assert!(alarms >= 2, "{name}: {alarms}");
    }
}

/// One changed row of evidence changes the alarm, which is detected.
#[test]
fn evidence_that_was_changed_is_noticed() {
    let folder = Folder::new();
    let spec = spec("guarantee/hiring.toml");
    let (code, text) = run(
        folder.path(),
        &["run", &spec, "hiring:", "-q", "--to", "verdicts.jsonl", "--evidence", "evidence.jsonl"],
    );
    assert_eq!((code, text.as_str()), (1, ""));
    let evidence = folder.read("evidence.jsonl");
    let trial = evidence.lines().find(|line| line.contains("\"value\":1.0")).unwrap();
    let changed = evidence.replacen(trial, &trial.replace("\"value\":1.0", "\"value\":0.0"), 1);
    let folder = folder.file("changed.jsonl", changed);
    let (code, text) = run(folder.path(), &["explain", "verdicts.jsonl", "changed.jsonl"]);
    assert_eq!(code, 2);
    assert!(text.contains("it is of another run, or"), "{text}");
    // Without the last rows before the alarm there is no alarm.
    let block =
        evidence.lines().take_while(|line| !line.contains("\"block\":7")).map(|line| format!("{line}\n"));
    let folder = folder.file("short.jsonl", block.collect::<String>());
    assert_snapshot!("evidence_short", folder.run("explain verdicts.jsonl short.jsonl"));
    let folder = folder.file("other.jsonl", "{\"time\":1,\"kind\":\"trial\",\"metric\":\"parity\"}\n");
    assert_snapshot!("evidence_unreadable", folder.run("explain verdicts.jsonl other.jsonl"));
    let folder = folder.file("none.jsonl", "");
    assert_snapshot!("evidence_none", folder.run("explain verdicts.jsonl none.jsonl"));
    assert_snapshot!("evidence_no_alarm", folder.run("explain none.jsonl evidence.jsonl"));
    assert_snapshot!("evidence_no_number", folder.run("explain verdicts.jsonl evidence.jsonl --alarm 2"));
    assert_snapshot!("evidence_not_verdicts", folder.run("explain evidence.jsonl verdicts.jsonl"));
}

/// Hashed keys: the same key has the same hash, another secret gives another hash, and alarms can still be
/// recomputed.
#[test]
fn keys_can_be_hashed() {
    let folder =
        Folder::new().file("secret", "a secret of some length\n").file("other", "another secret of a length");
    let spec = spec("guarantee/hiring.toml");
    let keys = |secret: Option<&str>, evidence: &str| {
        let mut arguments = vec![
            "run",
            &spec,
            "hiring:",
            "-q",
            "--to",
            "verdicts.jsonl?mode=replace",
            "--evidence",
            evidence,
        ];
        secret.into_iter().for_each(|secret| arguments.extend(["--hash-keys", secret]));
        let (code, text) = run(folder.path(), &arguments);
        assert_eq!((code, text.as_str()), (1, ""));
        let (code, text) = run(folder.path(), &["explain", "verdicts.jsonl", evidence]);
        assert_eq!(code, 0, "{text}");
        let rows = folder.read(evidence);
        let key = |line: &str| Some(line.split_once("\"key\":\"")?.1.split_once('"')?.0.to_owned());
        rows.lines().filter_map(key).collect::<Vec<_>>()
    };
    let (plain, hashed) = (keys(None, "plain.jsonl"), keys(Some("secret"), "hashed.jsonl"));
    let (again, other) = (keys(Some("secret"), "again.jsonl"), keys(Some("other"), "other.jsonl"));
    assert_eq!(hashed, again);
    assert_eq!(plain.len(), hashed.len());
    assert!(plain.iter().zip(&hashed).zip(&other).all(|((plain, one), other)| {
        one.len() == 32 && one != other && !one.contains(plain.as_str()) | (plain.len() < 4)
    }));
    let distinct: std::collections::BTreeSet<&String> = hashed.iter().collect();
    assert_eq!(distinct.len(), plain.iter().collect::<std::collections::BTreeSet<_>>().len());
}

#[test]
fn what_cannot_be_written_down_is_said_before_anything_is() {
    let folder = Folder::new()
        .file("open.toml", std::fs::read_to_string(spec("hiring.toml")).unwrap())
        .file("fair.toml", std::fs::read_to_string(spec("guarantee/hiring.toml")).unwrap())
        .file("events.csv", std::fs::read_to_string(root().join("examples/hiring/events.csv")).unwrap())
        .file("short", "short\n");
    assert_snapshot!(
        "evidence_never_final",
        folder.run("run open.toml events.csv --evidence evidence.jsonl")
    );
    assert_snapshot!("evidence_of_rtlola", folder.run("run spec.lola events.csv --evidence evidence.jsonl"));
    assert_snapshot!("evidence_unknown_kind", folder.run("run fair.toml events.csv --evidence evidence.txt"));
    assert_snapshot!("evidence_is_input", folder.run("run fair.toml events.csv --evidence events.csv"));
    assert_snapshot!(
        "evidence_is_sink",
        folder.run("run fair.toml events.csv --to a.jsonl --evidence a.jsonl")
    );
    assert_snapshot!(
        "evidence_short_secret",
        folder.run("run fair.toml events.csv --evidence evidence.jsonl --hash-keys short")
    );
    assert_snapshot!("evidence_hash_of_nothing", folder.run("run fair.toml events.csv --hash-keys short"));
    assert!(!folder.path().join("evidence.jsonl").exists());
    assert_snapshot!(
        "evidence_no_folder",
        folder.run("run fair.toml events.csv --evidence no/evidence.jsonl")
    );
    assert_snapshot!("explain_help", folder.run("explain --help"));
    assert_snapshot!("guarantee_run", folder.run("run fair.toml events.csv"));
    assert_snapshot!("guarantee_check", folder.run("check fair.toml events.csv"));
}

/// Evidence that cannot be written ends the run with an error.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_no_alarm() {
    let folder = tempfile::tempdir().unwrap();
    let spec = spec("guarantee/hiring.toml");
    let (code, text) = run(
        folder.path(),
        &["run", &spec, "hiring:", "-q", "--to", "v.jsonl", "--evidence", "jsonl:/dev/full"],
    );
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("/dev/full"), "{text}");
}
