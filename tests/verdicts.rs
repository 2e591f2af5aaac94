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

/// A table of one case a row, in which women are hired less often than men, whatever their race.
fn cases() -> String {
    let mut csv = "id,sex,race,hired\n".to_owned();
    for id in 0..400 {
        let (sex, race) = (["F", "M"][id % 2], ["A", "B"][id / 2 % 2]);
        let hired = if sex == "M" { id % 5 < 4 } else { id % 5 < 1 };
        csv += &format!("{id},{sex},{race},{hired}\n");
    }
    csv
}

#[test]
fn an_alarm_of_one_of_several_comparisons_is_recomputed() {
    let folder = Folder::new().file("d.csv", cases());
    folder.run("init d.csv --to f.toml");
    let toml = folder.read("f.toml");
    assert!(toml.contains("    [\"sex\"],\n    [\"race\"],\n"), "{toml}");
    folder.run("run f.toml d.csv -q --to v.jsonl --evidence e.parquet");
    let out = folder.run("explain v.jsonl e.parquet");
    assert!(out.contains("above 40, since comparisons, rates and strata share the guarantee"), "{out}");
    assert!(
        out.contains("v.jsonl has the same message, to the last digit.") && out.ends_with("exit code 0\n"),
        "{out}"
    );
    let list = folder.run("explain v.jsonl --list");
    assert!(list.contains("   1  ") && list.contains("demographic parity by sex: M 0."), "{list}");
    assert!(!list.contains("by race"), "race makes no difference: {list}");
}

#[test]
fn rows_that_repeat_a_key_are_counted() {
    let again = cases().lines().skip(1).map(|line| format!("{line}\n")).collect::<String>();
    let folder = Folder::new().file("d.csv", cases()).file("twice.csv", cases() + &again);
    folder.run("init d.csv --to f.toml");
    assert!(!folder.run("run f.toml d.csv").contains("repeated key"));
    let out = folder.run("run f.toml twice.csv");
    assert!(out.contains("400 rows (50.0 %) with the key of an earlier row"), "{out}");
    assert!(out.contains("; 400 rows (50.0 %) with a repeated key"), "{out}");
}

/// What `init` proposes for a table is the same in every format, and so is what comes of it.
#[test]
fn a_proposal_is_made_from_every_format() {
    let folder = Folder::new().file("d.csv", cases());
    let lines: Vec<String> = cases()
        .lines()
        .skip(1)
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let [id, sex, race, hired] = fields[..] else { panic!("{line}") };
            format!(
                "{{\"id\":{id},\"person\":{{\"sex\":\"{sex}\",\"race\":[\"{race}\"]}},\"hired\":{hired}}}\n"
            )
        })
        .collect();
    let folder = folder.file("d.jsonl", lines.concat());
    std::fs::create_dir(folder.path().join("csvs")).unwrap();
    let rows = cases();
    let (first, second) = rows.split_at(rows.find("\n200,").unwrap() + 1);
    let folder = folder.file("csvs/a.csv", first).file("csvs/b.csv", format!("id,sex,race,hired\n{second}"));
    let group =
        |out: &str, name: &str| out.lines().find(|line| line.trim().starts_with(name)).unwrap().to_owned();
    folder.run("init d.csv --to csv.toml");
    let of_csv = folder.run("run csv.toml d.csv -q");
    for data in ["d.jsonl", "csvs"] {
        let out = folder.run(&format!("init {data} --to {data}.toml"));
        assert!(out.contains("exit code 0"), "{out}");
        let of_data = folder.run(&format!("run {data}.toml {data} -q"));
        for name in ["F ", "M "] {
            assert_eq!(group(&of_data, name), group(&of_csv, name), "{of_data}");
        }
    }
    let nested = folder.read("d.jsonl.toml");
    assert!(
        nested.contains("[\"person.sex\"]") && nested.contains("\"person.race.0\" = \"String\""),
        "{nested}"
    );
}

#[test]
fn a_column_called_row_is_no_time() {
    let table = "row,sex,hired\nfront,F,true\nback,M,false\nback,F,true\n";
    let folder = Folder::new().file("d.csv", table);
    folder.run("init d.csv --to f.toml");
    assert!(folder.read("f.toml").contains("time = \"row\""), "{}", folder.read("f.toml"));
    let out = folder.run("run f.toml d.csv -q");
    assert!(out.contains("F         1.000  2 of 2") && out.contains("M         0.000  0 of 1"), "{out}");
}

#[test]
fn another_delimiter_is_found() {
    let expected = {
        let folder = Folder::new().file("d.csv", cases());
        folder.run("init d.csv --to f.toml");
        folder.run("run f.toml d.csv -q")
    };
    assert!(expected.contains("gap"), "{expected}");
    for delimiter in [";", "\t", "|"] {
        let folder = Folder::new().file("d.csv", cases().replace(',', delimiter));
        folder.run("init d.csv --to f.toml");
        assert_eq!(folder.run("run f.toml d.csv -q"), expected, "{delimiter:?}");
        let out = folder.run("init d.csv?delimiter=,");
        assert!(!out.contains("exit code 0"), "what is asked for is not guessed: {out}");
    }
}

/// A table without a row of names is not taken for one whose columns are called like its first row.
#[test]
fn a_missing_row_of_names_is_noticed() {
    let rows = cases();
    let (_, values) = rows.split_once('\n').unwrap();
    let folder = Folder::new().file("d.csv", values).file("n.csv", "1,2\n5,6\n7,8\n");
    let out = folder.run("init d.csv");
    assert!(out.contains("look like values") && out.contains("'d.csv?header=false'"), "{out}");
    assert!(folder.run("init d.csv?header=false").contains("`c"), "{out}");
    assert!(folder.run("init n.csv").contains("`1`, `2` look like values"));
    assert!(!folder.run("init n.csv?header=true").contains("look like values"));
}

/// Without times, rows of one person that are separate events are not taken for one case, and `init` says so.
#[test]
fn a_key_in_several_rows_without_times_is_said() {
    let rows = (0..60).map(|row| format!("{},{},{}\n", row / 2, ["F", "M"][row % 2], row % 3 == 0));
    let folder = Folder::new().file("d.csv", format!("id,sex,hired\n{}", rows.collect::<String>()));
    let out = folder.run("init d.csv");
    assert!(out.contains("rows with the same `id` cannot be joined"), "{out}");
}

/// The strata that `init` suggests are not the attribute whose groups it compares.
#[test]
fn strata_are_not_the_groups_again() {
    let rows = (0..60).map(|row| {
        let (sex, code) = [("F", "female"), ("M", "male")][row % 2];
        format!("{row},{sex},{code},{},{}\n", ["A", "B", "C"][row % 3], row % 5 == 0)
    });
    let table = format!("id,sex,gender,department,hired\n{}", rows.collect::<String>());
    let out = Folder::new().file("d.csv", table).run("init d.csv");
    assert!(out.contains("# strata    = \"department\""), "{out}");
}
