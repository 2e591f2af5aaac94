//! Figures of rates over time.

use fairstream_core::{RunCounts, Time};
use fairstream_fairness::{Comparison, Curve, GroupStanding, Judge, RateHistory, Rule, Standing};
use fairstream_report::{Axis, Behind, LinePlot, Series, Sheet};

use super::{SHOWN, rate_history, worst_first};
use crate::progress::counted;

/// Maximum number of highlighted groups; of more, those that are furthest apart are chosen.
const LINES: usize = 7;

/// A sheet with a figure for every rate in every stratum.
pub(super) fn sheet(title: &str, judge: &Judge, counts: &RunCounts) -> Sheet {
    let standings = worst_first(judge);
    let figures = standings.iter().take(SHOWN).filter_map(|standing| {
        let rule = judge.rules().get(standing.rate_index.0)?;
        figure(rule, standing, rate_history(judge, standing)?, counts.reached)
    });
    Sheet { title: title.to_owned(), figures: figures.collect() }
}

/// A figure of estimates over time, with the range allowed by the tolerance and the periods of alarms.
pub(super) fn figure(
    rule: &Rule,
    standing: &Standing,
    rate_history: &RateHistory,
    reached: Option<Time>,
) -> Option<LinePlot> {
    let begin = rate_history.groups.values().filter_map(Curve::first).map(|(time, _)| time).min()?;
    // A single instant cannot be drawn.
    let end = reached.filter(|end| *end > begin)?;
    let (label, ticks) = if rule.by_rows { rows(begin, end) } else { times(begin, end) };
    let stretches =
        rate_history.alarms.iter().map(|alarm| (alarm.since.0 as f64, alarm.until.unwrap_or(end).0 as f64));
    let (band, limits) = match rule.reference.as_deref() {
        None => allowed(rule, &points(&rate_history.highest, end)),
        Some(reference) => {
            let of_reference = rate_history.groups.get(reference).map(|curve| points(curve, end));
            (around(rule, &of_reference.unwrap_or_default()), Vec::new())
        }
    };
    let series = lines(standing, rate_history, end);
    let y = Axis::new(if rule.guarantee.is_some() { "rate" } else { "estimate" });
    // Rates are drawn from 0 to 1; for other numbers the axis has to include the allowed range.
    let y = if standing.is_mean {
        y.around(band.iter().flat_map(|(_, low, high)| [*low, high + (high - low) / 4.0]))
    } else {
        y.within(0.0, 1.0)
    };
    Some(LinePlot {
        title: standing.title.clone(),
        description: described(rule, standing, rate_history),
        x: Axis::new(&label).within(begin.0 as f64, end.0 as f64).ticks(ticks),
        y,
        series,
        limits,
        behind: Behind {
            band,
            band_name: "within the tolerance".to_owned(),
            stretches: stretches.collect(),
            stretch_name: "alarm".to_owned(),
        },
    })
}

/// Alternative text: the final estimate of each group, and the number of alarms.
fn described(rule: &Rule, standing: &Standing, rate_history: &RateHistory) -> String {
    let mut groups: Vec<&GroupStanding> =
        standing.groups.iter().filter(|group| group.estimate.is_some()).collect();
    groups.sort_by(|a, b| b.estimate.unwrap_or_default().total_cmp(&a.estimate.unwrap_or_default()));
    let count = groups.len();
    if count > LINES {
        groups.drain(LINES / 2..count - LINES / 2);
    }
    let at_end: Vec<String> =
        groups.iter().map(|group| format!("{} {}", group.group, group.compared())).collect();
    let which = if count > LINES { " the highest and the lowest of them are at" } else { "" };
    let alarms = match rate_history.alarms.as_slice() {
        [] => "There was no alarm.".to_owned(),
        [alarm] if alarm.count == 1 => match alarm.until {
            None => format!("There is an alarm since {}.", rule.when(alarm.since)),
            Some(until) => {
                format!("There was an alarm from {} to {}.", rule.when(alarm.since), rule.when(until))
            }
        },
        many => format!("There were {}.", counted(many.iter().map(|span| span.count).sum(), "alarm")),
    };
    let drawn = if rule.guarantee.is_some() { "Rates" } else { "Estimates" };
    format!(
        "{drawn} of {} over time. In the end{which}: {}. {alarms}",
        counted(count as u64, "group"),
        at_end.join(", ")
    )
}

/// The values of a curve as a step function up to `end`.
fn points(curve: &Curve, end: Time) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (time, value) in curve.points() {
        points.extend(points.last().map(|(_, before)| (time.0 as f64, *before)));
        points.push((time.0 as f64, value));
    }
    points.extend(points.last().map(|(_, last)| (end.0 as f64, *last)));
    points
}

/// A line for each group. If there are many, only the highest and the lowest are coloured.
fn lines(standing: &Standing, rate_history: &RateHistory, end: Time) -> Vec<Series> {
    let groups = standing.groups.iter();
    let mut groups: Vec<(&GroupStanding, &Curve)> =
        groups.filter_map(|group| Some((group, rate_history.groups.get(&group.values)?))).collect();
    let count = groups.len();
    if count <= LINES {
        return groups
            .into_iter()
            .map(|(group, curve)| Series::new(&group.group, points(curve, end)))
            .collect();
    }
    groups
        .sort_by(|(a, _), (b, _)| b.estimate.unwrap_or_default().total_cmp(&a.estimate.unwrap_or_default()));
    let middle = LINES / 2..count - LINES / 2;
    // Coloured lines are drawn last, on top.
    let of_many = groups[middle.clone()].iter().enumerate().map(|(place, (_, curve))| {
        let name = if place == 0 { format!("{} others", middle.len()) } else { String::new() };
        Series::new(&name, points(curve, end)).faint()
    });
    let ends = groups[..middle.start].iter().chain(&groups[middle.end..]);
    of_many.chain(ends.map(|(group, curve)| Series::new(&group.group, points(curve, end)))).collect()
}

type Band = Vec<(f64, f64, f64)>;

/// The range allowed by the tolerance: a band below the highest estimate, or a level.
fn allowed(rule: &Rule, highest: &[(f64, f64)]) -> (Band, Vec<(f64, String)>) {
    let tolerance = rule.tolerance;
    let below = |low: fn(f64, f64) -> f64| {
        highest.iter().map(|(at, high)| (*at, low(*high, tolerance), *high)).collect()
    };
    match rule.comparison {
        Comparison::Difference => (below(|high, tolerance| high - tolerance), Vec::new()),
        Comparison::Ratio => (below(|high, tolerance| high * tolerance), Vec::new()),
        Comparison::Highest => (Vec::new(), vec![(tolerance, format!("tolerance {tolerance}"))]),
    }
}

/// The range allowed by the tolerance beside a reference group: a band around its estimate.
fn around(rule: &Rule, reference: &[(f64, f64)]) -> Band {
    let tolerance = rule.tolerance;
    let ends = |rate: f64| match rule.comparison {
        Comparison::Ratio if tolerance > 0.0 => (rate * tolerance, rate / tolerance),
        Comparison::Ratio => (0.0, 1.0),
        Comparison::Difference | Comparison::Highest => (rate - tolerance, rate + tolerance),
    };
    reference.iter().map(|(at, rate)| (*at, ends(*rate).0, ends(*rate).1)).collect()
}

/// The same where times are numbers of rows.
fn rows(begin: Time, end: Time) -> (String, Vec<(f64, String)>) {
    const SECOND: i64 = 1_000_000_000;
    const TICKS: i64 = 4;
    let row = |number: i64| begin.0 + (end.0 - begin.0) / TICKS * number;
    let tick = |at: i64| (at as f64, (at / SECOND).to_string());
    ("row".to_owned(), (0..=TICKS).map(|number| tick(row(number))).collect())
}

/// Label and ticks of the time axis. Ticks show only the part of a date that distinguishes them.
fn times(begin: Time, end: Time) -> (String, Vec<(f64, String)>) {
    const SECOND: i64 = 1_000_000_000;
    const DAY: i64 = 86_400 * SECOND;
    const TICKS: i64 = 4;
    let span = end.0.saturating_sub(begin.0);
    let written = begin.for_people();
    let is_date = written.contains('T');
    let unit = match () {
        () if span > 8 * DAY => DAY,
        () if is_date && span > 3600 * SECOND => 60 * SECOND,
        () => SECOND,
    };
    let tick = |number: i64| {
        let exact = begin.0.saturating_add(span / TICKS * number);
        let rounded = if span > 8 * unit { exact - exact.rem_euclid(unit) } else { exact };
        let text = Time(rounded).for_people();
        // `2026-01-05T14:30:00Z`, or `600s` if the first time is relative.
        let text = match (is_date, unit) {
            (false, DAY) => format!("{}d", rounded / DAY),
            (false, _) => text,
            (true, DAY) => text.get(..10).unwrap_or(&text).to_owned(),
            (true, SECOND) => text.get(11..).unwrap_or(&text).trim_end_matches('Z').to_owned(),
            (true, _) => text.get(5..16).unwrap_or(&text).replace('T', " "),
        };
        (rounded.max(begin.0) as f64, text)
    };
    let label = match (is_date, unit) {
        (false, _) => "time".to_owned(),
        (true, DAY) => "time (UTC)".to_owned(),
        (true, SECOND) => format!("time (UTC), {}", written.get(..10).unwrap_or_default()),
        (true, _) => format!("time (UTC), {}", written.get(..4).unwrap_or_default()),
    };
    (label, (0..=TICKS).map(tick).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticks are in order, within the axis, in one format, and short enough not to overlap.
    #[test]
    fn ticks_of_any_span_can_be_read() {
        const SECOND: i64 = 1_000_000_000;
        for begin in [0, 60 * SECOND, 1_767_225_600 * SECOND + 1] {
            for span in [1, 1000, SECOND, 600 * SECOND, 7200 * SECOND, 864_000 * SECOND, 400_000_000 * SECOND]
            {
                let (begin, end) = (Time(begin), Time(begin + span));
                let (label, ticks) = times(begin, end);
                let words: Vec<&str> = ticks.iter().map(|(_, text)| text.as_str()).collect();
                assert!(ticks.is_sorted_by_key(|(at, _)| *at) && label.starts_with("time"), "{words:?}");
                assert!(
                    ticks.iter().all(|(at, _)| (begin.0 as f64..=end.0 as f64).contains(at)),
                    "{words:?}"
                );
                assert!(words.iter().all(|text| text.len() <= 18), "{words:?}");
                let kinds =
                    ['-', ':', 's', 'd'].map(|sign| words.iter().filter(|text| text.contains(sign)).count());
                assert!(kinds.iter().all(|count| [0, words.len()].contains(count)), "{words:?}");
            }
        }
    }
}
