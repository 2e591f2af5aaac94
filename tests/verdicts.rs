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
