//! The semantics of RTLola, as small files: `conformance/*.toml`, each with a specification, a trace, the expected
//! verdicts and the reason. Every engine must pass all cases.

use std::path::Path;

use fairstream_core::{RunOptions, Selection, Time};
use fairstream_engine::Specification;
use serde::Deserialize;

use crate::support::{BuildFor, Collect, ENGINES, root, run_on, sources};

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
    /// The reason why the reference engine is wrong in this case.
    differs: Option<String>,
    /// Its verdicts; `refused` if it refuses the specification.
    reference: Option<String>,
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
        for (name, engine) in ENGINES {
            if let Err(failure) = check(&path, name, engine) {
                failures.push(format!("--- {} ({name})\n{failure}", path.file_stem().unwrap().display()));
            }
        }
    }
    failures.sort();
    assert!(failures.is_empty(), "{} of {cases} cases fail:\n{}", failures.len(), failures.join("\n"));
    assert!(cases >= 30, "only {cases} cases were found");
}

/// Checks that an engine gives the verdicts of a case. The error has the actual verdicts.
pub(crate) fn check(path: &Path, name: &str, engine: BuildFor) -> Result<(), String> {
    let case: Case =
        toml::from_str(&std::fs::read_to_string(path).unwrap()).map_err(|error| error.to_string())?;
    assert!(!case.rationale.is_empty());
    assert_eq!(case.differs.is_some(), case.reference.is_some(), "a difference has a reason");
    let spec = Specification::parse("spec", &case.spec).map_err(|error| error.to_string())?;
    let dir = tempfile::tempdir().unwrap();
    let is_json = case.trace.trim_start().starts_with('{');
    let trace = dir.path().join(if is_json { "trace.jsonl" } else { "trace.csv" });
    std::fs::write(&trace, &case.trace).unwrap();
    let time = |text: &Option<String>| text.as_ref().map(|text| text.parse::<Time>().unwrap());
    let options = RunOptions { since: time(&case.since), until: time(&case.until), ..RunOptions::default() };
    let select = if case.select == Expected::Triggers { Selection::Triggers } else { Selection::Changes };
    let collect = Collect::new(select);
    let report =
        run_on(engine, &spec, sources(&spec, &[trace], 8192), vec![Box::new(collect.clone())], options);
    if name == "reference" && case.reference.as_deref() == Some("refused") {
        return report.error.map(|_| ()).ok_or_else(|| "the reference engine does not refuse it".to_owned());
    }
    if let Some(error) = report.error {
        return Err(error.to_string());
    }
    let has_instance = |line: &&String| line.split(' ').nth(1).is_some_and(|stream| stream.contains('['));
    let plain = case.select == Expected::Plain;
    let found: Vec<String> =
        collect.lines().iter().filter(|line| !plain || !has_instance(line)).cloned().collect();
    let own = case.reference.filter(|_| name == "reference");
    let expected: Vec<&str> = own.as_ref().unwrap_or(&case.expect).lines().collect();
    if found == expected {
        return Ok(());
    }
    Err(format!("{}\nexpected\n  {}\nfound\n  {}", case.rationale, expected.join("\n  "), found.join("\n  ")))
}
