//! Admissions to Berkeley: unfair over all departments, hardly within them.

use std::collections::BTreeMap;

use fairstream_report::{Axis, Behind, LinePlot, Series};
use fairstream_scenarios::Admissions;

use crate::Extent;
use crate::page::{Finding, Outcome, percent, table};
use crate::subject::{Sample, Subject};

const TOLERANCE: f64 = 0.1;

pub(crate) fn run(extent: Extent) -> anyhow::Result<Outcome> {
    let subject = Subject::of("admissions.toml", &[])?;
    let [overall, within] = [0, 1].map(|index| &subject.compiled.streams()[index]);
    let gap_in = within.gap_in.clone().unwrap_or_default();
    let followed = [
        &overall.gap,
        &gap_in,
        &overall.numerator,
        &overall.denominator,
        &within.numerator,
        &within.denominator,
    ]
    .map(String::as_str);
    let mut violated = [0_u64; 2];
    let mut first_run: Vec<Sample> = Vec::new();
    for seed in 1..=extent.admissions_seeds {
        let admissions = Admissions { seed, ..Admissions::default() };
        let samples = subject.follow(&mut *admissions.source(&subject.request())?, &followed)?;
        let last = last(&samples);
        for (stream, violated) in violated.iter_mut().enumerate() {
            let above = last.iter().any(|((of, _), gap)| *of == stream && *gap > TOLERANCE);
            *violated += u64::from(above);
        }
        if seed == 1 {
            first_run = samples;
        }
    }
    let last = last(&first_run);
    let rate = |numerator: usize, denominator: usize, instance: &[&str]| {
        let of = |stream: usize| {
            let instance: Vec<String> = instance.iter().map(|&value| value.to_owned()).collect();
            last.get(&(stream, instance)).copied().unwrap_or(f64::NAN)
        };
        (of(numerator), of(denominator), of(numerator) / of(denominator))
    };
    let departments: Vec<String> =
        last.keys().filter(|(stream, _)| *stream == 1).filter_map(|(_, of)| of.first().cloned()).collect();
    let shown = |(numerator, denominator, rate): (f64, f64, f64)| {
        format!("{} ({numerator} of {denominator})", percent(rate))
    };
    let gap = last.get(&(0, Vec::new())).copied().unwrap_or_default();
    let mut rows = vec![vec![
        "all".to_owned(),
        shown(rate(2, 3, &["M"])),
        shown(rate(2, 3, &["F"])),
        format!("{gap:.3}"),
    ]];
    let (mut favours_women, mut above) = (0, Vec::new());
    for department in &departments {
        let [men, women] = ["M", "F"].map(|gender| rate(4, 5, &[gender, department]));
        let gap = last.get(&(1, vec![department.clone()])).copied().unwrap_or_default();
        favours_women += u64::from(women.2 > men.2);
        if gap > TOLERANCE {
            let favoured = if women.2 > men.2 { "women" } else { "men" };
            above.push(format!("{department} (in favour of {favoured})"));
        }
        rows.push(vec![department.clone(), shown(men), shown(women), format!("{gap:.3}")]);
    }
    let seeds = extent.admissions_seeds;
    let above = if above.is_empty() { "none".to_owned() } else { above.join(", ") };
    let findings = vec![
        Finding::new(
            "demographic parity",
            "violated (44.5 % of the men, 30.4 % of the women; Bickel and others, 1975)",
            format!(
                "violated at the end in {} of {seeds} orders of the same people, gap {gap:.3}",
                violated[0]
            ),
        ),
        Finding::new(
            "conditional parity by department",
            "hardly: within departments women fare no worse",
            format!(
                "{favours_women} of {} departments favour women; above ε = 0.1: {above}",
                departments.len()
            ),
        ),
    ];
    let line = |stream: usize, instance: &[String]| -> Vec<(f64, f64)> {
        let samples =
            first_run.iter().filter(|sample| sample.stream == stream && sample.instance == instance);
        // There is one applicant per minute.
        samples.map(|sample| (sample.time.0 as f64 / 60e9, sample.value)).collect()
    };
    let mut series = vec![Series::new("all departments", line(0, &[]))];
    series.extend(departments.iter().map(|department| {
        Series::new(&format!("department {department}"), line(1, std::slice::from_ref(department)))
    }));
    let plot = LinePlot {
        title: "Berkeley 1973: the gap between men and women".to_owned(),
        description: format!(
            "Over all departments the gap stays above 0.1, at {gap:.3} in the end; within departments it does not, \
             except in: {above}."
        ),
        x: Axis::new("applicants").within(0.0, 4526.0),
        y: Axis::new("gap").within(0.0, 0.2),
        series,
        limits: vec![(TOLERANCE, "ε = 0.1".to_owned())],
        behind: Behind::default(),
    };
    let details = format!(
        "{}\nThe gap is of the estimates with γ = 0.5 and κ = 24, and groups with fewer than 30 applicants are not \
         compared.",
        table(&["department", "men", "women", "gap"], rows)
    );
    Ok(Outcome {
        setting: format!(
            "Graduate admissions to Berkeley, 1973: 4,526 applicants to the six largest departments, in {seeds} random \
             orders. Demographic parity, and conditional statistical parity by department, ε = 0.1 \
             (`specs/admissions.toml`). Not an experiment of the paper: the textbook case for its conditional metrics."
        ),
        findings,
        details,
        figures: vec![("admissions.svg".to_owned(), plot.svg(), plot.description.clone())],
        ..Outcome::default()
    })
}

/// The last value of every stream and instance.
fn last(samples: &[Sample]) -> BTreeMap<(usize, Vec<String>), f64> {
    samples.iter().map(|sample| ((sample.stream, sample.instance.clone()), sample.value)).collect()
}
