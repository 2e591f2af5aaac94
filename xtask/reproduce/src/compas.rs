//! COMPAS: equalized odds of ProPublica's recidivism scores, over time.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context;
use fairstream_core::{StopToken, Time};
use fairstream_report::{Axis, Behind, LinePlot, Series};
use fairstream_scenarios::Compas;

use crate::Extent;
use crate::page::{Finding, Outcome, grouped, percent, table};
use crate::subject::{Sample, Subject, root};

const TOLERANCE: f64 = 0.1;
const DAY: i64 = 86_400_000_000_000;

/// Path of ProPublica's file, if it exists.
pub(crate) fn scores() -> anyhow::Result<Option<PathBuf>> {
    let path = match std::env::var_os("FAIRSTREAM_COMPAS") {
        Some(path) => PathBuf::from(path),
        None => root()?.join("../shared/data/compas-scores.csv"),
    };
    Ok(path.is_file().then_some(path))
}

/// The streams of one rate: true positives or false positives.
struct Rate {
    samples: Vec<Sample>,
}

/// Index of each stream in the list of followed streams.
const ESTIMATE: usize = 0;
const GAP: usize = 1;
const NUMERATOR: usize = 2;
const DENOMINATOR: usize = 3;

impl Rate {
    /// Both rates, with this cut of the score.
    fn watch(path: &std::path::Path, cut: &str) -> anyhow::Result<[Rate; 2]> {
        let subject = Subject::of("compas.toml", &[("score > 6", cut)])?;
        let location = path.to_string_lossy();
        let mut rates = Vec::new();
        for streams in subject.compiled.streams() {
            let estimate = streams.estimate.as_ref().context("a rate is estimated")?;
            let followed = [estimate, &streams.gap, &streams.numerator, &streams.denominator];
            let compas = Compas::open(&location, "race", &StopToken::default())?;
            let mut source = compas.source(&subject.request())?;
            rates.push(Rate { samples: subject.follow(&mut *source, &followed.map(String::as_str))? });
        }
        match <[Rate; 2]>::try_from(rates) {
            Ok(rates) => Ok(rates),
            Err(rates) => anyhow::bail!("equalized odds has two rates, not {}", rates.len()),
        }
    }

    /// The first day on which the gap was above the tolerance, and the last on which it was not.
    fn alarms(&self) -> (Option<Time>, Option<Time>) {
        let gaps = || self.samples.iter().filter(|sample| sample.stream == GAP);
        let first = gaps().find(|sample| sample.value > TOLERANCE).map(|sample| sample.time);
        let quiet = gaps().rev().find(|sample| sample.value <= TOLERANCE).map(|sample| sample.time);
        (first, quiet)
    }

    fn last(&self, stream: usize) -> BTreeMap<String, f64> {
        let of = self.samples.iter().filter(|sample| sample.stream == stream);
        of.filter_map(|sample| Some((sample.instance.first()?.clone(), sample.value))).collect()
    }

    fn lines(&self) -> BTreeMap<String, Vec<(f64, f64)>> {
        let mut lines: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
        for sample in self.samples.iter().filter(|sample| sample.stream == ESTIMATE) {
            if let Some(group) = sample.instance.first() {
                lines.entry(group.clone()).or_default().push(((sample.time.0 / DAY) as f64, sample.value));
            }
        }
        lines
    }
}

fn day(time: Option<Time>) -> String {
    time.map_or("never".to_owned(), |time| time.for_people().chars().take(10).collect())
}

pub(crate) fn run(_: Extent) -> anyhow::Result<Outcome> {
    let setting = "ProPublica's `compas-scores.csv`: people of Broward County screened in 2013 and 2014, and whether \
        they re-offended. High risk is a score above 6; a person counts once 730 days have passed. Equalized odds \
        between all pairs of groups, γ = 0.5, κ = 100, ε = 0.1, checked every day (`specs/compas.toml`). The clock \
        stops at the end of the data, at the last offence; people screened less than 730 days before never count."
        .to_owned();
    let Some(path) = scores()? else {
        let reason = "there is no COMPAS data; set FAIRSTREAM_COMPAS to compas-scores.csv".to_owned();
        return Ok(Outcome { skipped: Some(reason), setting, ..Outcome::default() });
    };
    let [positives, negatives] = Rate::watch(&path, "score > 6")?;
    let (mut from, mut stable, mut rows, mut figures) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut pairs_apart = String::new();
    for (name, file, rate) in
        [("true positive", "compas-tpr.svg", &positives), ("false positive", "compas-fpr.svg", &negatives)]
    {
        let (first, quiet) = rate.alarms();
        let start = rate.samples.iter().find(|sample| sample.stream == DENOMINATOR && sample.value > 0.0);
        let start = start.map(|sample| sample.time);
        let days = first.zip(start).map(|(first, start)| (first.0 - start.0) / DAY);
        let days = days.map_or(String::new(), |days| format!(", {days} days after the first person counts"));
        from.push(format!("{name} rates from {}{days}", day(first)));
        stable.push(match (first, quiet) {
            (Some(first), Some(quiet)) if quiet > first => {
                format!("{name} rates are last within ε on {}", day(Some(quiet)))
            }
            (Some(_), _) => format!("{name} rates stay unfair to the end"),
            (None, _) => format!("{name} rates are never unfair"),
        });
        let estimates = rate.last(ESTIMATE);
        let (numerators, denominators) = (rate.last(NUMERATOR), rate.last(DENOMINATOR));
        for (group, estimate) in &estimates {
            let of =
                |counts: &BTreeMap<String, f64>| grouped(counts.get(group).copied().unwrap_or(0.0) as u64);
            rows.push(vec![
                name.to_owned(),
                group.clone(),
                format!("{estimate:.3}"),
                format!("{} of {}", of(&numerators), of(&denominators)),
            ]);
        }
        let groups: Vec<(&String, &f64)> = estimates.iter().collect();
        let apart: Vec<String> = groups
            .iter()
            .enumerate()
            .flat_map(|(index, one)| groups[index + 1..].iter().map(move |other| (one, other)))
            .filter(|(one, other)| (one.1 - other.1).abs() > TOLERANCE)
            .map(|(one, other)| format!("{} and {}", one.0, other.0))
            .collect();
        let pairs = groups.len() * groups.len().saturating_sub(1) / 2;
        pairs_apart +=
            &format!("\n{} of {pairs} pairs differ in the {name} rate: {}.\n", apart.len(), apart.join("; "));
        let plot = figure(name, rate, &estimates);
        figures.push((file.to_owned(), plot.svg(), plot.description.clone()));
    }
    let findings = vec![
        Finding::new("unfair from", "within a month after the first two years", from.join("; ")),
        Finding::new("after that", "stable", stable.join("; ")),
    ];
    let details = format!(
        "Estimates at the end:\n\n{}{pairs_apart}\n{}",
        table(&["rate", "group", "estimate", "counted"], rows),
        propublica(&path)?
    );
    Ok(Outcome { setting, findings, details, figures, ..Outcome::default() })
}

fn figure(name: &str, rate: &Rate, estimates: &BTreeMap<String, f64>) -> LinePlot {
    let ends: Vec<String> = estimates.iter().map(|(group, rate)| format!("{group} {rate:.3}")).collect();
    // Starts at the first person who counts: before, all estimates are at the prior.
    let from = rate.samples.iter().find(|sample| sample.stream == DENOMINATOR && sample.value > 0.0);
    let from = from.map_or(0.0, |sample| (sample.time.0 / DAY) as f64) - 5.0;
    let to = rate.samples.last().map_or(1.0, |sample| (sample.time.0 / DAY) as f64);
    let months = (0..24).map(|quarter| {
        let month = format!("{}-{:02}-01", 2013 + quarter / 4, quarter % 4 * 3 + 1);
        (month.parse::<Time>().map_or(0.0, |time| (time.0 / DAY) as f64), month[..7].to_owned())
    });
    let lines = rate.lines().into_iter();
    LinePlot {
        title: format!("COMPAS, score > 6: {name} rate"),
        description: format!("Estimates by group over time; at the end {}.", ends.join(", ")),
        x: Axis::new("day").within(from, to).ticks(months.collect()),
        y: Axis::new("estimate").within(0.0, 0.7),
        series: lines.map(|(group, points)| Series::new(&group, points)).collect(),
        limits: Vec::new(),
        behind: Behind::default(),
    }
}

/// ProPublica's own cut, compared with its own figures.
fn propublica(path: &std::path::Path) -> anyhow::Result<String> {
    let [positives, negatives] = Rate::watch(path, "score >= 5")?;
    // ProPublica's published rates, in per cent.
    let rows = [
        ("false positives", "African-American", 44.85, &negatives),
        ("false positives", "Caucasian", 23.45, &negatives),
        ("false negatives", "African-American", 27.99, &positives),
        ("false negatives", "Caucasian", 47.72, &positives),
    ];
    let rows = rows.map(|(what, group, published, rate)| {
        let of = |stream| rate.last(stream).get(group).copied().unwrap_or_default();
        let all = of(DENOMINATOR);
        let wrong = if what == "false positives" { of(NUMERATOR) } else { all - of(NUMERATOR) };
        let shown = |wrong: f64, all: f64| {
            format!("{} ({} of {})", percent(wrong / all), grouped(wrong as u64), grouped(all as u64))
        };
        let difference = wrong / all * 100.0 - published;
        vec![
            what.to_owned(),
            group.to_owned(),
            format!("{published:.2} %"),
            shown(wrong, all),
            format!("{difference:+.2} points"),
        ]
    });
    let (first, _) = negatives.alarms();
    Ok(format!(
        "With ProPublica's cut (medium or high: a score of 5 or more), counted without a prior:\n\n{}\nProPublica \
         counts two years net of custody; here they are 730 calendar days, and only people count whose two years \
         are over before the data ends. That is one reason to expect a difference. Whether it explains this one has \
         not been tested: the columns that are read here do not contain custody. With this cut false positive rates \
         differ by more than ε from {} on.",
        table(&["", "group", "ProPublica", "here", "difference"], rows),
        day(first)
    ))
}
