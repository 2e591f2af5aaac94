//! Measurements as tables in plain text and as JSON.

use serde_json::{Value, json};

use crate::contestant::{COMPILED, HAND, REFERENCE};
use crate::must_hold::{Requirement, bytes_per_trial, over_reference};
use bench::measure::{Measurement, find};
use bench::table::{Table, short};
use bench::workload::invented;

/// Table of costs and ratios, one line for each workload and size.
pub(crate) fn costs(measured: &[Measurement], reference_limit: u64) -> Table {
    let mut table = Table::new(&[
        "ns per event",
        "trials",
        "events",
        "triggers",
        "hand",
        "compiled",
        "reference",
        "compiled speed/hand",
        "compiled speed/reference",
    ]);
    for hand in measured.iter().filter(|measurement| measurement.system == HAND) {
        let cost = |system| find(measured, hand.workload, hand.trials, system).map(Measurement::median);
        let reference = find(measured, hand.workload, hand.trials, REFERENCE);
        let is_stopped = reference.is_none_or(|reference| !reference.last().ended);
        table.row([
            hand.workload.to_owned(),
            hand.trials.to_string(),
            hand.last().events.to_string(),
            hand.last().triggers.count.to_string(),
            number(Some(hand.median())),
            number(cost(COMPILED)),
            match reference {
                _ if is_stopped => format!("over {reference_limit} s"),
                _ => number(cost(REFERENCE)),
            },
            number(cost(COMPILED).map(|compiled| hand.median() / compiled)),
            match over_reference(measured, hand.workload, hand.trials) {
                Some(ratio) if is_stopped => format!("> {}", number(Some(ratio))),
                ratio => number(ratio),
            },
        ]);
    }
    table
}

/// Table of how the cost of an event grows with the number of trials.
pub(crate) fn growth(measured: &[Measurement]) -> Table {
    let mut table = Table::new(&["cost at 10^7 / at 10^4", "hand", "compiled"]);
    for workload in invented() {
        let cost = |trials, system| find(measured, workload, trials, system).map(Measurement::median);
        let growth =
            |system| cost(10_000_000, system).zip(cost(10_000, system)).map(|(large, small)| large / small);
        table.row([workload.to_owned(), number(growth(HAND)), number(growth(COMPILED))]);
    }
    table
}

/// Table of the bytes kept per applicant.
pub(crate) fn memory(measured: &[Measurement]) -> Table {
    let mut table = Table::new(&["bytes per open trial", "hand", "compiled", "reference"]);
    for workload in ["hiring", "hiring-lookup"] {
        let bytes = |system: &str| number(bytes_per_trial(measured, workload, system));
        table.row([workload.to_owned(), bytes(HAND), bytes(COMPILED), bytes(REFERENCE)]);
    }
    table
}

/// Table of the requirements and whether they hold.
pub(crate) fn must_hold(requirements: &[Requirement]) -> Table {
    let mut table = Table::new(&["requirement", "bound", "measured", ""]);
    for requirement in requirements {
        let verdict = match requirement.holds() {
            Some(true) => "pass",
            Some(false) => "FAIL",
            None => "not measured",
        };
        table.row([
            requirement.what.clone(),
            requirement.bound.to_string(),
            number(requirement.measured),
            verdict.to_owned(),
        ]);
    }
    table
}

/// All measurements as JSON.
pub(crate) fn json(measured: &[Measurement], requirements: &[Requirement]) -> Value {
    let measurements = measured.iter().map(Measurement::json);
    let must_hold = requirements.iter().map(|requirement| {
        json!({
            "what": requirement.what,
            "bound": requirement.bound.to_string(),
            "measured": requirement.measured,
            "holds": requirement.holds(),
        })
    });
    json!({ "measurements": Vec::from_iter(measurements), "must_hold": Vec::from_iter(must_hold) })
}

/// Formats a number, or a dash if there is none.
fn number(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), short)
}
