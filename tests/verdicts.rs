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
    assert!(out.contains("; 2 rows (50.0 %) without a key or a group that is compared"), "{out}");
    assert!(folder.read("report.html").contains("1 row (25.0 %) without `sex`"));
}

/// Verdicts and evidence are records: an earlier file is neither lost nor continued unless that is asked for.
#[test]
fn earlier_records_are_kept() {
    let file = file("horizon = \"0s\"", "");
    let mut data = "time,id,sex,ok\n".to_owned();
    for id in 0..400 {
        let (sex, ok) = if id % 2 == 0 { ("F", id % 20 == 0) } else { ("M", id % 20 != 1) };
        data += &format!("{id},{id},{sex},{ok}\n");
    }
    let folder = Folder::new().file("f.toml", &file).file("d.csv", &data);
    for kind in ["v.jsonl", "v.csv"] {
        let written = folder.run(&format!("run f.toml d.csv -q --to {kind}"));
        assert!(written.ends_with("exit code 1\n"), "{written}");
        let first = folder.read(kind);
        // One line for the alarm (and a header), not one for each check at which the trigger is violated.
        assert!(first.lines().count() <= 2, "{first}");
        let refused = folder.run(&format!("run f.toml d.csv -q --to {kind}"));
        assert!(refused.contains(&format!("`{kind}?mode=append` continues it")), "{refused}");
        assert!(refused.ends_with("exit code 2\n"), "{refused}");
        assert_eq!(folder.read(kind), first);
        assert!(
            folder.run(&format!("run f.toml d.csv -q --to {kind}?mode=append")).ends_with("exit code 1\n")
        );
        let alarm = first.lines().last().unwrap();
        assert_eq!(folder.read(kind), format!("{first}{alarm}\n"), "the header is written once");
        assert!(
            folder.run(&format!("run f.toml d.csv -q --to {kind}?mode=replace")).ends_with("exit code 1\n")
        );
        assert_eq!(folder.read(kind), first);
    }
    let folder = folder.file("half.jsonl", "{\"ti");
    let refused = folder.run("run f.toml d.csv -q --to half.jsonl?mode=append");
    assert!(refused.contains("does not end with a complete line"), "{refused}");
    for (option, name) in [("--to", "v.parquet"), ("--evidence", "e.jsonl")] {
        assert!(folder.run(&format!("run f.toml d.csv -q {option} {name}")).ends_with("exit code 1\n"));
        let refused = folder.run(&format!("run f.toml d.csv -q {option} {name}"));
        assert!(
            refused.contains(&format!("{name} exists; `{name}?mode=replace` overwrites it")),
            "{refused}"
        );
        let refused = folder.run(&format!("run f.toml d.csv -q {option} {name}?mode=append"));
        assert!(refused.ends_with("exit code 2\n"), "{refused}");
        let replaced = folder.run(&format!("run f.toml d.csv -q {option} {name}?mode=replace"));
        assert!(replaced.ends_with("exit code 1\n"), "{replaced}");
    }
}
