//! Verdicts that a user gets from a table and a short fairness file: right counts, right words, or a clear error.

use crate::cli::Folder;

/// A fairness file with one metric over the columns `time`, `id`, `sex` and `ok`.
fn file(trial: &str, metric: &str) -> String {
    format!(
        "[events]\ntime = \"time\"\n[trial]\nkey = \"id\"\ngroup = \"sex\"\n{trial}\n[indicators]\nok = 'ok'\n\
         [[fairness]]\nmetric = \"demographic-parity\"\ndecision = \"ok\"\ntolerance = 0.1\n{metric}\n"
    )
}

#[test]
fn an_event_that_counts_the_last_trial_of_its_key_opens_the_next() {
    let rows = "time,id,sex,ok\n1,1,F,true\n3,2,M,true\n100,1,F,true\n100,2,M,true\n";
    let folder = Folder::new().file("f.toml", file("horizon = \"5s\"", "")).file("d.csv", rows);
    for engine in ["compiled", "reference"] {
        let out = folder.run(&format!("run f.toml d.csv --engine {engine}"));
        assert!(out.contains("F         1.000  1 of 1  1 pending"), "{out}");
        assert!(out.contains("M         1.000  1 of 1  1 pending"), "{out}");
    }
}

#[test]
fn a_run_without_a_trial_is_an_error() {
    let rows = "time,id,sex,ok\n1,1,,true\n2,2,,true\n";
    let folder = Folder::new().file("f.toml", file("horizon = \"0s\"", "")).file("d.csv", rows);
    let folder = folder.file("o.toml", file("horizon = \"0s\"\nopens = 'ok == false'", ""));
    let folder = folder.file("e.csv", "time,id,sex,ok\n1,1,F,true\n2,2,M,true\n");
    let folder = folder.file("empty.csv", "time,id,sex,ok\n");
    let out = folder.run("run f.toml d.csv");
    assert!(out.contains("no trial was opened in 2 rows"), "{out}");
    assert!(
        out.contains("`id`: every row has a value, such as \"1\", \"2\"\n  `sex`: no row has a value"),
        "{out}"
    );
    assert!(out.ends_with("exit code 2\n") && !out.contains("no alarm"), "{out}");
    let out = folder.run("run o.toml e.csv");
    assert!(out.contains("and fulfils `ok == false`"), "{out}");
    assert!(
        out.contains("`ok`: every row has a value, such as \"true\"") && out.ends_with("exit code 2\n"),
        "{out}"
    );
    let out = folder.run("run f.toml e.csv --since 50");
    assert!(out.contains("no event was evaluated") && out.ends_with("exit code 2\n"), "{out}");
}

#[test]
fn rows_in_no_trial_are_counted() {
    let rows = "time,id,sex,ok\n1,1,F,true\n2,2,M,true\n3,,M,true\n4,4,,true\n";
    let folder = Folder::new().file("f.toml", file("horizon = \"0s\"", "")).file("d.csv", rows);
    let out = folder.run("report f.toml d.csv");
    assert!(out.contains("1 row (25.0 %) without `id`: in no trial"), "{out}");
    assert!(out.contains("1 row (25.0 %) without `sex`: they open no trial"), "{out}");
    assert!(out.contains("; 2 rows (50.0 %) without a key or group"), "{out}");
    assert!(folder.read("report.html").contains("1 row (25.0 %) without `sex`"));
}
