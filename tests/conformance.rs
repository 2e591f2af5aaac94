//! What RTLola means, as small files: `conformance/*.toml`, each with a specification, a trace, the
//! verdicts that are expected and the reason. The same cases hold for every engine.

use std::path::Path;

use fairstream_core::{RunOptions, Selection, Time};
use fairstream_engine::Specification;
use serde::Deserialize;

use crate::support::{Collect, csv_sources, root, run};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    rationale: String,
    spec: String,
    trace: String,
    expect: String,
    #[serde(default)]
    select: Expected,
    since: Option<String>,
    until: Option<String>,
}

/// Which verdicts a case lists.
#[derive(Clone, Copy, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Expected {
    /// Triggers only.
    #[default]
    Triggers,
    /// Everything.
    Changes,
    /// Triggers and the values of streams that have no instances.
    Plain,
}

#[test]
fn every_case_gives_its_verdicts() {
    let mut cases = 0;
    let mut failures = Vec::new();
    for entry in std::fs::read_dir(root().join("tests/conformance")).unwrap() {
        let path = entry.unwrap().path();
        cases += 1;
        if let Err(failure) = check(&path) {
            failures.push(format!("--- {}\n{failure}", path.file_stem().unwrap().display()));
        }
    }
    failures.sort();
    assert!(failures.is_empty(), "{} of {cases} cases fail:\n{}", failures.len(), failures.join("\n"));
    assert!(cases >= 30, "only {cases} cases were found");
}

fn check(path: &Path) -> Result<(), String> {
    let case: Case =
        toml::from_str(&std::fs::read_to_string(path).unwrap()).map_err(|error| error.to_string())?;
    assert!(!case.rationale.is_empty());
    let spec = Specification::parse("spec", &case.spec).map_err(|error| error.to_string())?;
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace.csv");
    std::fs::write(&trace, &case.trace).unwrap();
    let time = |text: &Option<String>| text.as_ref().map(|text| text.parse::<Time>().unwrap());
    let options = RunOptions { since: time(&case.since), until: time(&case.until), ..RunOptions::default() };
    let select = if case.select == Expected::Triggers { Selection::Triggers } else { Selection::Changes };
    let collect = Collect::new(select);
    let report = run(&spec, csv_sources(&spec, &[trace], 8192), vec![Box::new(collect.clone())], options);
    if let Some(error) = report.error {
        return Err(error.to_string());
    }
    let has_instance = |line: &&String| line.split(' ').nth(1).is_some_and(|stream| stream.contains('['));
    let plain = case.select == Expected::Plain;
    let found: Vec<String> =
        collect.lines().iter().filter(|line| !plain || !has_instance(line)).cloned().collect();
    let expected: Vec<&str> = case.expect.lines().collect();
    if found == expected {
        return Ok(());
    }
    Err(format!("{}\nexpected\n  {}\nfound\n  {}", case.rationale, expected.join("\n  "), found.join("\n  ")))
}
