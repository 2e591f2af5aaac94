//! `fairstream sweep`: its output and its messages.

use insta::assert_snapshot;

use crate::cli::Folder;
use crate::support::root;

fn folder() -> Folder {
    let specs = ["hiring", "seminar", "admissions"].map(|name| {
        let path = root().join(format!("specs/{name}.toml"));
        (format!("{name}.toml"), std::fs::read(path).unwrap())
    });
    let folder = specs.into_iter().fold(Folder::new(), |folder, (name, text)| folder.file(&name, text));
    folder.file("events.csv", std::fs::read(root().join("examples/hiring/events.csv")).unwrap())
}

#[test]
fn tables() {
    let folder = folder();
    assert_snapshot!(
        "sweep",
        folder.run("sweep hiring.toml events.csv --confidence 24,50 --tolerance 0.1..0.2:0.05")
    );
    let runs = "hiring:?applicants=100&accept=M=0.5,F=0.5";
    assert_snapshot!(
        "sweep_runs",
        folder.run(&format!(
            "sweep hiring.toml {runs} --seeds 1..20 --count runs --confidence 10..50 --tolerance 0.1,0.2 -q"
        ))
    );
    assert_snapshot!(
        "sweep_against",
        folder.run(&format!(
            "sweep hiring.toml hiring:?applicants=100 --against {runs} --seeds 1..20 --confidence 24..72:24 \
             --tolerance 0.1..0.3 --count alarms --to all.csv"
        ))
    );
    assert_snapshot!("sweep_against_csv", folder.read("all.csv"));
    assert_snapshot!(
        "sweep_csv",
        folder.run(
            "sweep admissions.toml admissions: --metric demographic-parity --confidence 24 --tolerance 0.1 --to - -q"
        )
    );
    let strata = folder.run("sweep seminar.toml seminar: --confidence 24 --tolerance 0.1 --color always -q");
    assert!(strata.contains("\x1b[38;5;"), "{strata}");
}

/// A sweep with the parameters of the file agrees with a run.
#[test]
fn a_sweep_agrees_with_a_run() {
    let folder = folder();
    let run = folder.run("run hiring.toml events.csv --to csv:-?select=triggers -q");
    let triggers = run.lines().filter(|line| line.contains(",trigger,")).count();
    let alarms = run.lines().filter(|line| line.contains(",alarm,")).count();
    let sweep = folder.run("sweep hiring.toml events.csv --confidence 24 --tolerance 0.1 --to - -q");
    assert!(sweep.contains(&format!("demographic_parity,24,0.1,1,162,{triggers},{alarms},1\n")), "{sweep}");
    assert_eq!(triggers, 130);
}

#[test]
fn errors() {
    let folder = folder();
    let bad = |rest: &str| folder.run(&format!("sweep {rest}"));
    assert_snapshot!("sweep_no_input", bad("hiring.toml"));
    assert_snapshot!("sweep_rtlola", bad("spec.lola events.csv"));
    assert_snapshot!("sweep_missing_file", bad("hiring.toml events.csv nowhere.csv"));
    assert_snapshot!("sweep_bad_axis", bad("hiring.toml events.csv --confidence 100..10"));
    assert_snapshot!("sweep_bad_step", bad("hiring.toml events.csv --tolerance 0..1:0"));
    assert_snapshot!("sweep_no_metric", bad("hiring.toml events.csv --metric equalised-odds"));
    assert_snapshot!("sweep_no_seeds", bad("hiring.toml events.csv --seeds 1..3"));
    assert_snapshot!("sweep_bad_seeds", bad("hiring.toml hiring: --seeds 3..1"));
    assert_snapshot!("sweep_to_input", bad("hiring.toml events.csv --to events.csv"));
    assert_snapshot!("sweep_other_columns", bad("hiring.toml admissions:"));
    assert_snapshot!("sweep_help", bad("--help"));
    let text = std::fs::read_to_string(root().join("specs/hiring.toml")).unwrap();
    let ratio =
        "[[fairness]]\nmetric = \"disparate-impact\"\ndecision = \"accepted\"\nrule = \"map\"\nprior = 0.5\n";
    let folder = folder.file("both.toml", format!("{text}\n{ratio}"));
    assert_snapshot!("sweep_two_kinds", folder.run("sweep both.toml events.csv"));
    let one = folder.run("sweep both.toml events.csv --metric disparate-impact --confidence 24 -q");
    assert!(one.contains("0.95") && one.ends_with("exit code 0\n"), "{one}");
}
