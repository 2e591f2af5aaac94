//! Renders the measurements: tables in Markdown, figures, and JSON.

use std::collections::BTreeSet;
use std::fmt::Write;

use bench::measure::{Measurement, find};
use bench::table::short;
use fairstream_report::{Axis, Behind, LinePlot, Series, grouped};
use serde_json::{Value, json};

use crate::compare::{Comparison, Missing};
use crate::rivals::{FAIRSTREAM, Rival};

const TITLES: [(&str, &str); 7] = [
    ("hiring", "Demographic parity in hiring, a check at every event"),
    ("hiring-daily", "Demographic parity in hiring, one check a day"),
    ("seminar", "Conditional parity in ten seminars, a check at every event"),
    ("seminar-daily", "Conditional parity in ten seminars, one check a day"),
    ("compas", "Equalized odds, the published COMPAS screenings, one check a day"),
    (
        "compas-days",
        "Equalized odds, the published COMPAS screenings under the paper's specification, which counts days",
    ),
    ("compas-deadline", "Equalized odds, generated screenings in the shape of COMPAS, one check a day"),
];

fn title(workload: &str) -> &str {
    TITLES.iter().find(|(name, _)| *name == workload).map_or(workload, |(_, title)| title)
}

/// Names of the workloads that were measured, in order.
fn workloads(measured: &[Measurement]) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = measured.iter().map(|one| one.workload).collect();
    names.dedup();
    names
}

/// The table of the README: demographic parity at every event, from a thousand applicants to a million.
pub(crate) fn headline(measured: &[Measurement], rivals: &[Rival]) -> String {
    let sizes: Vec<u64> = sizes(measured, "hiring").into_iter().filter(|size| *size >= 1_000).collect();
    let sizes = &sizes[..sizes.len().min(4)];
    if sizes.is_empty() {
        return String::new();
    }
    format!(
        "\n## In short\n\n{}. Time relative to fairstream:\n\n{}",
        title("hiring"),
        table("applicants", measured, rivals, "hiring", sizes, |_| String::new())
    )
}

/// Time of each system relative to fairstream, a table for each workload.
pub(crate) fn tables(measured: &[Measurement], rivals: &[Rival]) -> String {
    let mut text = String::new();
    for workload in workloads(measured) {
        let sizes = sizes(measured, workload);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "\n## {}\n\nTime relative to fairstream; fairstream itself in nanoseconds per event.\n\n{}",
            title(workload),
            table("trials", measured, rivals, workload, &sizes, spread).trim_end()
        );
    }
    text
}

/// The sizes in trials that a workload was measured on.
fn sizes(measured: &[Measurement], workload: &str) -> Vec<u64> {
    let of = measured.iter().filter(|one| one.workload == workload);
    BTreeSet::from_iter(of.map(|one| one.trials)).into_iter().collect()
}

/// A row for each system, a column for each size; `beside` appends to a measured value.
fn table(
    head: &str,
    measured: &[Measurement],
    rivals: &[Rival],
    workload: &str,
    sizes: &[u64],
    beside: impl Fn(&Measurement) -> String,
) -> String {
    let heads: Vec<String> = sizes.iter().map(|size| format!(" {} |", grouped(*size))).collect();
    let mut text = format!("| {head} |{}\n| --- |{}\n", heads.concat(), " ---: |".repeat(sizes.len()));
    let takes_part = |rival: &&Rival| {
        measured
            .iter()
            .any(|one| one.workload == workload && one.system == rival.name && sizes.contains(&one.trials))
    };
    for rival in rivals.iter().filter(takes_part) {
        let cell = |trials: &u64| {
            let ours = find(measured, workload, *trials, FAIRSTREAM);
            let cell = match (find(measured, workload, *trials, rival.name), ours) {
                (Some(one), _) if rival.name == FAIRSTREAM => {
                    format!("{} ns{}", short(one.median()), beside(one))
                }
                (Some(one), Some(ours)) if one.last().ended => {
                    format!("{} ×{}", short(one.median() / ours.median()), beside(one))
                }
                (Some(one), Some(ours)) => {
                    format!("> {} ×", short(one.last().elapsed.as_secs_f64() / whole(ours)))
                }
                _ => "–".to_owned(),
            };
            format!(" {cell} |")
        };
        let cells: Vec<String> = sizes.iter().map(cell).collect();
        let unit = if rival.name == FAIRSTREAM { ", per event" } else { "" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {}{unit} |{}", rival.name, cells.concat());
    }
    text
}

/// Half the range between the fastest and the slowest run.
fn spread(one: &Measurement) -> String {
    let [least, median, most] = one.ns_per_event();
    match one.runs.len() {
        1 => String::new(),
        _ => format!(" ±{:.0} %", (most - least) / median * 50.0),
    }
}

/// Seconds of a whole run.
fn whole(one: &Measurement) -> f64 {
    one.median() * one.last().events as f64 / 1e9
}

/// Log-log plots of time over trials: a file name and its text for each workload.
pub(crate) fn figures(measured: &[Measurement], rivals: &[Rival]) -> Vec<(String, String)> {
    let mut figures = Vec::new();
    for workload in workloads(measured) {
        let series = |rival: &Rival| {
            let of = measured.iter().filter(|one| one.workload == workload && one.system == rival.name);
            let points: Vec<(f64, f64)> = of
                .filter(|one| one.last().ended)
                .map(|one| ((one.trials as f64).log10(), whole(one).max(1e-9).log10()))
                .collect();
            // A system that was measured at only one size is drawn as a short line.
            const HALF: f64 = 0.03;
            match points.as_slice() {
                [] => None,
                [(x, y)] => Some(Series::new(rival.name, vec![(x - HALF, *y), (x + HALF, *y)])),
                _ => Some(Series::new(rival.name, points)),
            }
        };
        let series: Vec<Series> = rivals.iter().filter_map(series).collect();
        if series.is_empty() {
            continue;
        }
        let sizes = measured.iter().filter(|one| one.workload == workload).map(|one| one.trials);
        let (least, most) = (sizes.clone().min().unwrap_or(1), sizes.max().unwrap_or(1));
        let powers = |low: i32, high: i32, unit: &str| {
            (low..=high)
                .map(|power| (f64::from(power), format!("{}{unit}", power_of_ten(power))))
                .collect::<Vec<_>>()
        };
        let (from, to) = ((least as f64).log10().floor() as i32, (most as f64).log10().ceil() as i32);
        let plot = LinePlot {
            title: title(workload).to_owned(),
            description: format!(
                "Seconds of a whole run over the number of trials, for {} systems",
                series.len()
            ),
            x: Axis::new("trials").within(f64::from(from), f64::from(to)).ticks(powers(from, to, "")),
            y: Axis::new("seconds").within(-6.0, 2.0).ticks(powers(-6, 2, "")),
            series,
            limits: Vec::new(),
            behind: Behind::default(),
        };
        figures.push((format!("{workload}.svg"), plot.svg()));
    }
    figures
}

fn power_of_ten(power: i32) -> String {
    match u32::try_from(power) {
        Ok(power) => grouped(10_u64.pow(power)),
        Err(_) => format!("{:.*}", power.unsigned_abs() as usize, 10_f64.powi(power)),
    }
}

pub(crate) fn json(comparison: &Comparison, missing: &Missing) -> Value {
    let measurements = comparison.measured.iter().map(Measurement::json);
    json!({
        "measurements": Vec::from_iter(measurements),
        "versions": comparison.versions,
        "missing": missing,
    })
}

/// Compares fairstream with an earlier `results.json`.
pub(crate) fn against(baseline: &Value, measured: &[Measurement]) -> String {
    let mut text = String::from(
        "\n## Since the baseline\n\n| workload | trials | baseline, ns per event | now, ns per event | now / baseline |\n| --- | ---: | ---: | ---: | ---: |\n",
    );
    let earlier = baseline["measurements"].as_array().map_or(&[][..], Vec::as_slice);
    for one in measured.iter().filter(|one| one.system == FAIRSTREAM) {
        let then = earlier.iter().find(|then| {
            then["workload"] == one.workload
                && then["contestant"] == FAIRSTREAM
                && then["trials"] == one.trials
        });
        let Some(then) = then.and_then(|then| then["ns_per_event"]["median"].as_f64()) else { continue };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {:.2} |",
            one.workload,
            grouped(one.trials),
            short(then),
            short(one.median()),
            one.median() / then
        );
    }
    text
}
