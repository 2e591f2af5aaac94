//! Writes a difference as a conformance case.

use std::path::PathBuf;

use fairstream_core::VerdictBatch;

use super::run::Case;
use super::trace::seconds;
use crate::support::{line, root};

/// The text of a conformance case that expects the verdicts of the reference engine.
pub(super) fn toml(case: &Case, seed: u64, number: usize, difference: &str) -> String {
    let expected: Vec<String> = match case.parse() {
        Ok(spec) => case
            .expected(&spec)
            .iter()
            .flat_map(VerdictBatch::iter)
            .map(|verdict| line(&verdict) + "\n")
            .collect(),
        Err(_) => Vec::new(),
    };
    let rationale = format!("Found by differential testing (seed {seed}, case {number}): {difference}.");
    let last = case.trace.events.last().map_or(0, |event| event.time);
    let until = if case.trace.until >= last {
        format!("until = \"{}\"\n", seconds(case.trace.until))
    } else {
        String::new()
    };
    let rationale = serde_json::Value::from(rationale);
    format!(
        "rationale = {rationale}\nselect = \"changes\"\n{until}\nspec = '''\n{}'''\n\ntrace = '''\n{}'''\n\nexpect = '''\n{}'''\n",
        case.spec(),
        case.trace.text(),
        expected.concat(),
    )
}

/// Writes the case to the folder of conformance cases.
pub(super) fn write(case: &Case, seed: u64, number: usize, difference: &str) -> PathBuf {
    let path = root().join("tests/conformance").join(format!("found_{seed}_{number}.toml"));
    std::fs::write(&path, toml(case, seed, number, difference)).unwrap();
    path
}
