//! Times and rows that are wrong: reported, bounded, and never the reason why nothing is seen.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::cli::Folder;
use crate::support::fairstream;

const SPEC: &str = "input a : Int64\ntrigger a > 0 \"positive\"\n";

/// 600 rows, of which the third is dated 2262.
fn one_wrong_date() -> String {
    let mut rows = "time,a\n".to_owned();
    for row in 0..600 {
        let _ = match row {
            2 => writeln!(rows, "2262-01-01T00:00:00Z,0"),
            row => writeln!(rows, "2026-01-01T{:02}:{:02}:00Z,0", row / 60, row % 60),
        };
    }
    rows
}

#[test]
fn one_wrong_date_in_a_file_is_named_and_too_many_late_rows_are_an_error() {
    let folder = Folder::new().file("a.lola", SPEC).file("events.csv", one_wrong_date());
    let text = folder.run("run a.lola events.csv --on-bad-row skip");
    let warned = "warning: events.csv: row 4: its time 2262-01-01T00:00:00Z is 236y";
    assert!(text.contains(warned) && text.contains("`--max-jump 1d` refuses such rows"), "{text}");
    assert!(text.contains("is before 2262-01-01T00:00:00Z, that of row 4"), "{text}");
    let failed = "error: 597 of 600 rows (99.5 %) were skipped, 597 of them because they came too late: more than \
        `--max-bad 1%` allows";
    assert!(text.contains(failed) && text.ends_with("exit code 2\n"), "{text}");
    // The wrong row alone is refused.
    let text = folder.run("run a.lola events.csv --on-bad-row skip --max-jump 1d");
    assert!(text.contains("skipped: events.csv: row 4: its time 2262-01-01T00:00:00Z is 236y"), "{text}");
    assert!(text.contains("599 events") && text.ends_with("exit code 0\n"), "{text}");
    let text = folder.run("run a.lola events.csv --on-bad-row skip --max-bad 100%");
    assert!(text.ends_with("exit code 0\n"), "{text}");
}

/// From a pipe, a row from the future is refused; a gap in an archive is not.
#[test]
fn a_row_from_the_future_is_refused_from_a_pipe() {
    let folder = Folder::new().file("a.lola", SPEC);
    let piped = |rows: &str| {
        let mut child = fairstream()
            .args(["run", "a.lola", "csv:-", "--on-bad-row", "skip"])
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(rows.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, err) = piped(&one_wrong_date());
    assert!(code == 0 && err.contains("599 events"), "{err}");
    assert!(
        err.contains("row 4: its time 2262-01-01T00:00:00Z") && err.contains("and later than now"),
        "{err}"
    );
    let (code, err) = piped("time,a\n1999-01-01,0\n2020-01-01,0\n");
    assert!(code == 0 && err.contains("2 events") && !err.contains("later than now"), "{err}");
}

/// A gap costs what changes in it. Five years with a check every second were not through after 100 s.
#[test]
fn a_gap_costs_what_changes_in_it() {
    let file = |rule: &str| {
        format!(
            "[trial]\nkey = \"id\"\ngroup = \"sex\"\nhorizon = \"5m\"\n[indicators]\nyes = 'a > 0'\n[[fairness]]\n\
             metric = \"demographic-parity\"\ndecision = \"yes\"\ntolerance = 0.1\ncheck = \"1s\"\n{rule}\n"
        )
    };
    let rows = "time,id,sex,a\n2020-01-01T00:00:00Z,1,F,1\n2020-01-01T00:01:00Z,2,M,0\n\
        2025-01-01T00:00:00Z,3,F,1\n2025-01-01T00:01:00Z,4,M,1\n";
    let folder = Folder::new()
        .file("map.toml", file("rule = \"map\"\nconfidence = 0"))
        .file("sure.toml", file(""))
        .file("events.csv", rows);
    let begin = Instant::now();
    let map = folder.run("run map.toml events.csv --until 9999-12-31");
    assert!(map.contains("ALARM") && map.contains("2 of 2") && map.ends_with("exit code 1\n"), "{map}");
    let sure = folder.run("run sure.toml events.csv --until 2026-01-01 --to console --evidence e.csv");
    assert!(sure.contains("1.000  2 of 2") && sure.ends_with("exit code 0\n"), "{sure}");
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    // Trials count at their own time, gap or not.
    let evidence = folder.read("e.csv");
    let times: Vec<&str> =
        evidence.lines().filter(|line| line.contains(",trial,")).map(|line| &line[..20]).collect();
    assert_eq!(
        times,
        ["2020-01-01T00:05:00.", "2020-01-01T00:06:00.", "2025-01-01T00:05:00.", "2025-01-01T00:06:00."]
    );
}

/// An alarm and a later error: neither hides the other.
#[test]
fn an_alarm_before_an_error_has_an_exit_code_of_its_own() {
    let folder = Folder::new().file("a.lola", SPEC).file("events.csv", "time,a\n1,1\n2,x\n");
    let text = folder.run("run a.lola events.csv");
    assert!(text.contains("positive") && text.contains("error: events.csv: row 3, column `a`"), "{text}");
    assert!(text.contains("1 violation before this error, so the exit code is 3"), "{text}");
    assert!(text.ends_with("exit code 3\n"), "{text}");
}

#[test]
fn rows_without_a_key_or_a_group_are_warned_of_and_nothing_monitored_is_an_error() {
    let file = "[events]\ntime = \"row\"\n[trial]\nkey = \"id\"\ngroup = \"sex\"\nhorizon = \"0s\"\n[indicators]\n\
        yes = 'a > 0'\n[[fairness]]\nmetric = \"demographic-parity\"\ndecision = \"yes\"\ntolerance = 0.1\n";
    let rows = |missing: usize| -> String {
        let row = |row: usize| match row {
            row if row < missing => format!("{row},,1\n"),
            row if row < 2 * missing => "\n,F,1\n".to_owned(),
            row => format!("{row},F,1\n"),
        };
        format!("id,sex,a\n{}", (0..1000).map(row).collect::<String>())
    };
    let folder = Folder::new().file("a.toml", file).file("few.csv", rows(10)).file("many.csv", rows(11));
    let few = folder.run("run a.toml few.csv -q");
    assert!(!few.contains("warning"), "{few}");
    assert!(few.contains("10 rows (1.0 %) without `id`: in no trial"), "{few}");
    let many = folder.run("run a.toml many.csv -q");
    assert!(many.contains("warning: 11 rows (1.1 %) without `id`: in no trial"), "{many}");
    assert!(many.contains("warning: 11 rows (1.1 %) without `sex`: they open no trial"), "{many}");
    let none = folder.file("none.csv", "id,sex,a\n1,,1\n").run("run a.toml none.csv -q");
    assert!(none.contains("nothing was monitored") && none.ends_with("exit code 2\n"), "{none}");
    let empty = Folder::new().file("none.csv", "time,id,score,name\n").run("run spec.lola none.csv -q");
    assert!(empty.contains("nothing was monitored") && empty.ends_with("exit code 2\n"), "{empty}");
}
