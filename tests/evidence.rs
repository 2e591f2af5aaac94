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

/// The fairness file of hiring, where the row of an application says all there is to it.
fn immediate(guarantee: &str) -> String {
    let file = std::fs::read_to_string(spec("guarantee/hiring.toml")).unwrap();
    let later = "{ when = \"true\", key = \"accepted\", called = \"were accepted\" }";
    let replaced = [
        ("horizon = \"5m\"", "horizon = \"0s\""),
        ("check     = \"1m\"", ""),
        (later, "\"accepted = 1\""),
        ("{ false_alarms = 0.05 }", guarantee),
    ];
    replaced.iter().fold(file, |file, (from, to)| {
        assert!(file.contains(from), "no {from}");
        file.replace(from, to)
    })
}

/// 200,000 trials of a grossly unfair system: the e-value is beyond every float, and written out wherever it is text,
/// always alike. No number becomes a text in JSON.
#[test]
fn an_e_value_beyond_every_float_is_written_out() {
    let rows: String =
        (0..200_000).map(|row| format!("{row},{row},{},{}\n", ["F", "M"][row % 2], row % 2)).collect();
    let folder = Folder::new()
        .file("fair.toml", immediate("{ false_alarms = 0.05, block = 100000, block_span = \"10d\" }"))
        .file("events.csv", format!("time,id,gender,accepted\n{rows}"));
    let outputs = ["--to", "console", "--to", "report.html", "--to", "v.jsonl", "--evidence", "e.jsonl"];
    let (code, console) =
        run(folder.path(), &[&["run", "fair.toml", "events.csv", "-q"], &outputs[..]].concat());
    assert_eq!(code, 1, "{console}");
    let (_, e_value) = console.split_once("has an e-value of ").unwrap();
    let (e_value, _) = e_value.split_once(',').unwrap();
    let (digits, exponent) = e_value.split_once('e').unwrap();
    assert!(digits.parse::<f64>().is_ok() && exponent.parse::<u32>().is_ok_and(|of| of > 3000), "{e_value}");
    // The state at the end is that of the alarm.
    assert!(console.contains(&format!("e-value {e_value}, an alarm at 20; p ")), "{console}");
    let (_, p_value) = console.split_once("; p ").unwrap();
    assert!(
        p_value.split_once(';').unwrap().0.ends_with(&format!("e-{}", exponent.parse::<u32>().unwrap() + 1))
    );
    assert!(folder.read("report.html").contains(e_value));
    let message = format!(
        "\"demographic parity: M 1.000 (100000 of 100000) and F 0.000 (0 of 100000) differ by 1.000; that \
        groups differ by more than 0.1 has an e-value of {e_value}, an alarm at 20\""
    );
    assert!(folder.read("v.jsonl").contains(&message), "{message}");
    let (code, text) = run(folder.path(), &["explain", "v.jsonl", "e.jsonl"]);
    assert!(code == 0 && text.matches(e_value).count() >= 3, "{text}");
    assert!(text.ends_with("v.jsonl has the same message, to the last digit.\n"), "{text}");
    for written in [&console, &folder.read("report.html"), &text] {
        assert!(!written.contains(" inf") && !written.contains(">inf"), "{written}");
    }
    let (code, _) =
        run(folder.path(), &["run", "fair.toml", "events.csv", "-q", "--to", "all.jsonl?select=changes"]);
    assert_eq!(code, 1);
    let changes = folder.read("all.jsonl");
    let last = |stream: &str| {
        let named = |line: &&str| line.contains(&format!("\"stream\":\"demographic_parity_{stream}\""));
        let line = changes.lines().rev().find(named).unwrap();
        serde_json::from_str::<serde_json::Value>(line).unwrap()["value"].as_f64()
    };
    assert_eq!((last("e_value"), last("p_value")), (Some(f64::MAX), Some(f64::MIN_POSITIVE)));
}

/// The trials that `--trials` writes add up to the counts in the details of the alarm: those up to the alarm; of a
/// detector, those of the blocks that made its evidence.
#[test]
fn the_trials_behind_an_alarm_add_up_to_its_counts() {
    let detector = include_str!("../specs/guarantee/hiring.toml")
        .replace("false_alarms = 0.05", "false_alarm_every = 100000");
    assert!(detector.contains("false_alarm_every"), "{detector}");
    let folder = Folder::new()
        .file("detector.toml", detector)
        .file("ever.toml", include_str!("../specs/guarantee/hiring.toml"));
    for file in ["ever.toml", "detector.toml"] {
        let (code, text) = run(
            folder.path(),
            &[
                "run",
                file,
                "hiring:",
                "-q",
                "--to",
                "v.jsonl?mode=replace",
                "--evidence",
                "e.parquet?mode=replace",
            ],
        );
        assert_eq!((code, text.as_str()), (1, ""));
        let (code, text) =
            run(folder.path(), &["explain", "v.jsonl", "e.parquet", "--trials", "trials.jsonl"]);
        assert!(code == 0 && text.ends_with("to the last digit.\n"), "{text}");
        let lines = |name: &str| -> Vec<serde_json::Value> {
            folder.read(name).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        let trials = lines("trials.jsonl");
        let verdicts = lines("v.jsonl");
        let details = &verdicts.iter().find(|verdict| verdict["kind"] == "alarm").unwrap()["details"];
        let groups = details["groups"].as_array().unwrap();
        assert!(groups.len() == 2 && details["tolerance"] == 0.1, "{details}");
        for group in groups {
            let name = format!("[{}]", group["group"]["gender"]);
            let of_group = || trials.iter().filter(|trial| trial["group"] == name.as_str());
            let positives: f64 = of_group().map(|trial| trial["value"].as_f64().unwrap()).sum();
            assert_eq!(group["trials"], of_group().count(), "{file} {details}");
            assert_eq!(group["numerator"], positives, "{file} {details}");
            assert!(positives > 0.0);
        }
        let keys: std::collections::HashSet<&str> =
            trials.iter().map(|trial| trial["key"].as_str().unwrap()).collect();
        assert_eq!(keys.len(), trials.len(), "each trial once");
        let (code, text) = run(folder.path(), &["explain", "v.jsonl", "e.parquet", "--trials", "csv:-"]);
        assert!(code == 0 && text.lines().count() == trials.len() + 1, "{text}");
    }
    let (code, text) = run(folder.path(), &["explain", "v.jsonl", "e.parquet", "--trials", "e.parquet"]);
    assert!(
        code == 2 && text.contains("e.parquet is the evidence; writing there would destroy it"),
        "{text}"
    );
}

/// In a table without times, alarms are at rows.
#[test]
fn alarms_of_tables_without_times_are_at_rows() {
    let rows = (0..400).map(|row| {
        let (sex, hired) = if row % 2 == 0 { ("F", row % 10 == 0) } else { ("M", row % 10 != 1) };
        format!("{sex},{hired}\n")
    });
    let folder = Folder::new()
        .file("d.csv", format!("sex,hired\n{}", rows.collect::<String>()))
        .file(
            "f.toml",
            "[events]\ntime = \"row\"\n[trial]\nkey = \"row\"\ngroup = \"sex\"\nhorizon = \"0s\"\n[indicators]\n\
             hired = 'hired'\n[[fairness]]\nmetric = \"demographic-parity\"\ndecision = \"hired\"\ntolerance = 0.1\n",
        );
    let (code, text) =
        run(folder.path(), &["run", "f.toml", "d.csv", "-q", "--to", "v.jsonl", "--evidence", "e.jsonl"]);
    assert_eq!((code, text.as_str()), (1, ""));
    let (_, list) = run(folder.path(), &["explain", "v.jsonl", "e.jsonl", "--list"]);
    assert!(list.trim_start().starts_with("1  row "), "{list}");
    let (code, text) = run(folder.path(), &["explain", "v.jsonl", "e.jsonl"]);
    assert!(code == 0 && text.starts_with("Alarm 1 of 1, at row "), "{text}");
    let (_, live) = run(folder.path(), &["run", "f.toml", "d.csv", "--live"]);
    assert!(live.contains("ALARM since row ") && live.contains("reached row 400"), "{live}");
}

/// Groups that are numbers are listed as numbers, in tables, on the page and by `explain`; the alarm of a detector is
/// recomputed with the blocks that it counts, and names none of the groups with a handful of trials.
#[test]
fn a_detector_names_the_groups_of_late() {
    // Groups 2 and 10 are treated alike for 4,000 trials. Groups 7 and 30 have three trials, with extreme shares.
    let row = |row: usize| match (row % 200, row % 2) {
        (100, _) if row < 600 => (7, 1),
        (101, _) if row < 600 => (30, 0),
        (_, side) if row < 4000 => ([2, 10][side], row / 2 % 2),
        (_, side) => ([2, 10][side], usize::from(row / 2 % 10 < [8, 3][side])),
    };
    let rows = (0..8000).map(|number| {
        let (group, accepted) = row(number);
        format!("{number},{number},{group},{accepted}\n")
    });
    let file =
        immediate("{ false_alarm_every = 100000 }").replace("gender   = \"String\"", "gender   = \"UInt64\"");
    let folder = Folder::new()
        .file("fair.toml", file)
        .file("events.csv", format!("time,id,gender,accepted\n{}", rows.collect::<String>()));
    let outputs = ["--to", "console", "--to", "v.jsonl", "--evidence", "e.jsonl"];
    let (code, console) =
        run(folder.path(), &[&["run", "fair.toml", "events.csv", "-q"], &outputs[..]].concat());
    assert_eq!(code, 1, "{console}");
    let alarm = console.lines().next().unwrap();
    assert!(
        alarm.contains("ALARM  demographic parity: in the last ") && alarm.contains(" blocks, 2 0."),
        "{alarm}"
    );
    assert!(alarm.contains(" and 10 0.") && !alarm.contains(" 7 0.") && !alarm.contains(" 30 0."), "{alarm}");
    let (code, text) = run(folder.path(), &["explain", "v.jsonl", "e.jsonl"]);
    assert!(code == 0 && text.ends_with("v.jsonl has the same message, to the last digit.\n"), "{text}");
    for written in [&console, &text] {
        let groups = written.lines().filter(|line| line.contains(" of ") && line.starts_with("  "));
        let groups = groups.filter_map(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        let mut listed: Vec<u64> = groups.collect();
        listed.dedup();
        assert!(listed.ends_with(&[2, 7, 10, 30]), "{listed:?} in {written}");
    }
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

/// Evidence of which a row was changed, removed or added, or the end cut off, or that was replaced, is not accepted.
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
    assert!(text.contains("does not fit the rows before it"), "{text}");
    let row = evidence.lines().position(|line| line == trial).unwrap() + 1;
    assert!(text.contains(&format!("row {row} of the evidence")), "{text}");
    let removed = evidence.replacen(&format!("{trial}\n"), "", 1);
    let doubled = evidence.replacen(trial, &format!("{trial}\n{trial}"), 1);
    for (changed, at) in [(removed, row), (doubled, row + 1)] {
        let folder =
            Folder::new().file("verdicts.jsonl", folder.read("verdicts.jsonl")).file("e.jsonl", changed);
        let (code, text) = run(folder.path(), &["explain", "verdicts.jsonl", "e.jsonl"]);
        assert!(code == 2 && text.contains(&format!("row {at} of the evidence does not fit")), "{text}");
    }
    // Another run leads to a chain that is sound, but is not the one of these verdicts.
    let (code, _) = run(
        folder.path(),
        &["run", &spec, "hiring:?seed=2", "-q", "--to", "v2.parquet", "--evidence", "e2.jsonl"],
    );
    assert_eq!(code, 1);
    assert_snapshot!("evidence_replaced", folder.run("explain verdicts.jsonl e2.jsonl"));
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

/// Every place that says how far the evidence goes says the same.
#[test]
fn the_head_of_the_evidence_is_the_same_everywhere() {
    let folder = Folder::new();
    let spec = spec("guarantee/hiring.toml");
    let outputs = ["--to", "v.jsonl", "--to", "summary.json", "--to", "report.html", "--evidence", "e.jsonl"];
    let (code, text) = run(folder.path(), &[&["run", &spec, "hiring:", "-q"], &outputs[..]].concat());
    assert_eq!((code, text.as_str()), (1, ""));
    let evidence = folder.read("e.jsonl");
    let hash_of = |line: &str| {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        row["hash"].as_str().unwrap().to_owned()
    };
    let (rows, last) = (evidence.lines().count(), hash_of(evidence.lines().last().unwrap()));
    let summary: serde_json::Value = serde_json::from_str(&folder.read("summary.json")).unwrap();
    assert_eq!(summary["evidence"], serde_json::json!({ "rows": rows, "hash": last }));
    assert!(folder.read("report.html").contains(&format!("{rows} rows, the last with the hash {last}")));
    // An alarm has that of the rows up to its check.
    let verdicts = folder.read("v.jsonl");
    let alarm = verdicts.lines().find(|line| line.contains("\"kind\":\"alarm\"")).unwrap();
    let alarm: serde_json::Value = serde_json::from_str(alarm).unwrap();
    let head = &alarm["details"]["evidence"];
    let row = evidence.lines().nth(head["rows"].as_u64().unwrap() as usize - 1).unwrap();
    assert_eq!(head["hash"], hash_of(row));
    assert_eq!(serde_json::from_str::<serde_json::Value>(row).unwrap()["time"], alarm["time"]);
}

/// Ten departments that are equally unfair, with evidence for each that is enough for any of them, but not for one of ten.
/// With a bound on all false alarms, it is said that some department is unfair; with one on their fraction, all of them
/// have an alarm at once. Each of these is recomputed.
#[test]
fn strata_share_a_guarantee() {
    let file = |guarantee: &str| {
        format!(
            "[events]\ntime = \"row\"\n[trial]\nkey = \"row\"\ngroup = \"sex\"\nhorizon = \"0s\"\n\
             [indicators]\nhired = 'hired == 1'\n[[fairness]]\nmetric = \"conditional-statistical-parity\"\n\
             decision = \"hired\"\nstrata = \"department\"\ntolerance = 0.1\n\
             guarantee = {{ {guarantee}, strata = 10 }}\n"
        )
    };
    let row = |number: usize| {
        let (department, place) = (number % 10, number / 20);
        let (sex, accepted) = [("M", place % 5 % 2 == 0), ("F", place % 5 == 1)][number / 10 % 2];
        format!("{department},{sex},{}\n", u8::from(accepted))
    };
    let folder = Folder::new()
        .file("alarms.toml", file("false_alarms = 0.05"))
        .file("discoveries.toml", file("false_discoveries = 0.05"))
        .file("people.csv", format!("department,sex,hired\n{}", (0..1360).map(row).collect::<String>()));
    let outputs = ["-q", "--to", "console", "--to", "s.json", "--to", "r.html"];
    let (code, text) = run(folder.path(), &[&["run", "alarms.toml", "people.csv"], &outputs[..]].concat());
    let said = "conditional statistical parity: at least one of the 10 strata is unfair, though there is not enough \
        evidence yet of which (e-value of all together 79.83, above 20)";
    assert!(code == 0 && text.contains(said), "{text}");
    assert!(
        text.contains("e-value 79.83, an alarm at 200; p 0.01253, not adjusted for the others;"),
        "{text}"
    );
    assert!(folder.read("r.html").contains("at least one of the 10 strata is unfair"));
    let summary: serde_json::Value = serde_json::from_str(&folder.read("s.json")).unwrap();
    assert_eq!(summary["metrics"][0]["rates"][0]["any_stratum"]["is_unfair"], true);

    let records = ["-q", "--to", "v.jsonl", "--evidence", "e.jsonl"];
    let (code, _) = run(folder.path(), &[&["run", "discoveries.toml", "people.csv"], &records[..]].concat());
    assert_eq!(code, 1);
    // Five times 40 is enough for five of them together, and each further one makes it easier for the next.
    let verdicts = folder.read("v.jsonl");
    let thresholds: Vec<&str> = verdicts
        .lines()
        .map(|line| line.split_once("an alarm at ").unwrap().1.split_once('"').unwrap().0)
        .collect();
    assert_eq!(thresholds, ["40", "40", "40", "40", "40", "33.33", "28.57", "25", "22.22", "20"]);
    for alarm in 1..=10 {
        let (code, text) =
            run(folder.path(), &["explain", "v.jsonl", "e.jsonl", "--alarm", &alarm.to_string()]);
        assert!(code == 0 && text.ends_with("has the same message, to the last digit.\n"), "{text}");
    }
}
