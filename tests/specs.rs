//! The specifications under `specs/rtlola`, compared with calculations without streams.

use std::collections::BTreeMap;
use std::fmt::Write;

use fairstream_core::{RunOptions, Selection, Time};
use fairstream_engine::Specification;
use proptest::prelude::*;

use crate::support::{Collect, root, run, sources};

fn spec_text(name: &str) -> String {
    std::fs::read_to_string(root().join("specs/rtlola").join(name)).unwrap()
}

/// The times at which each trigger fires, as `TIME TRIGGER`, on CSV text.
fn triggers(spec: &str, csv: &str, until: Option<Time>) -> Vec<String> {
    let spec = Specification::parse("spec", spec).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events.csv");
    std::fs::write(&path, csv).unwrap();
    let collect = Collect::new(Selection::Triggers);
    let options = RunOptions { until, ..RunOptions::default() };
    let report = run(&spec, sources(&spec, &[path], 8192), vec![Box::new(collect.clone())], options);
    assert!(report.error.is_none(), "{:?}", report.error);
    collect.lines().iter().map(|line| line.split(" ! ").next().unwrap().to_owned()).collect()
}

/// The largest difference between any two estimates (positive + γκ) / (total + κ).
fn gap<'a>(counts: impl Iterator<Item = &'a (u32, u32)> + Clone, prior: f64, confidence: f64) -> f64 {
    let rates = counts.map(|(positive, total)| {
        (f64::from(*positive) + prior * confidence) / (f64::from(*total) + confidence)
    });
    let (least, most) = rates
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), rate| (least.min(rate), most.max(rate)));
    if most < least { 0.0 } else { most - least }
}

/// Applications and, for accepted ones, the number of applications until the decision.
fn applications(groups: u8, seminars: u8) -> impl Strategy<Value = Vec<(u8, u8, Option<u8>)>> {
    prop::collection::vec((0..groups, 0..seminars, prop::option::weighted(0.4, 0..5_u8)), 1..120)
}

const HOUR: u32 = 3600;
const DAY: u32 = 24 * HOUR;

/// Group, score, hours from the screening before to this one, and from this one to an offence.
type Person = (u8, i64, u32, Option<u32>);

fn person() -> impl Strategy<Value = Person> {
    (0..3_u8, 0..11_i64, 1..40_u32, prop::option::of(1..90_u32))
}

/// The events of these people as CSV, and the time of the last.
fn screenings(people: &[Person]) -> (String, u32) {
    let mut events = Vec::new();
    let mut time = 0;
    for (id, (group, score, step, offence)) in people.iter().enumerate() {
        time += step * HOUR;
        events.push((time, format!("SCREEN,{id},g{group},{score}")));
        events.extend(offence.map(|hours| (time + hours * HOUR, format!("RECIDIVISM,{id},,"))));
    }
    events.sort_by_key(|(time, _)| *time);
    let mut csv = String::from("time,event,id,group,score\n");
    for (time, text) in &events {
        writeln!(csv, "{time},{text}").unwrap();
    }
    (csv, events.last().unwrap().0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Both variants of hiring (one seminar), and seminar: after each event, count applications and acceptances.
    #[test]
    fn parity_is_violated_when_the_counts_say_so(people in applications(3, 3), with_seminars: bool) {
        let mut csv = String::from("time,id,gender,seminar,accepted\n");
        let mut expected = Vec::new();
        // For each seminar and group: acceptances and applications.
        let mut counts: BTreeMap<u8, BTreeMap<u8, (u32, u32)>> = BTreeMap::new();
        let mut seminars_seen = Vec::new();
        let mut decisions: Vec<(usize, usize)> = Vec::new();
        let mut time = 0;
        let mut check = |time: i32, counts: &BTreeMap<u8, BTreeMap<u8, (u32, u32)>>, seen: &[u8]| {
            for seminar in seen {
                if gap(counts[seminar].values(), 0.5, 24.0) > 0.1 {
                    let instance = if with_seminars { format!("[\"s{seminar}\"]") } else { String::new() };
                    expected.push(format!("{time}s trigger_0{instance}"));
                }
            }
        };
        for (id, (group, seminar, accepted)) in people.iter().enumerate() {
            let seminar = if with_seminars { *seminar } else { 0 };
            time += 1;
            writeln!(csv, "{time},{id},g{group},s{seminar},").unwrap();
            counts.entry(seminar).or_default().entry(*group).or_default().1 += 1;
            if !seminars_seen.contains(&seminar) {
                seminars_seen.push(seminar);
            }
            check(time, &counts, &seminars_seen);
            decisions.extend(accepted.map(|later| (id + usize::from(later), id)));
            for (_, accepted) in decisions.extract_if(.., |(due, _)| *due == id) {
                time += 1;
                writeln!(csv, "{time},,,,{accepted}").unwrap();
                let (group, seminar, _) = people[accepted];
                counts.entry(if with_seminars { seminar } else { 0 }).or_default().entry(group).or_default().0 += 1;
                check(time, &counts, &seminars_seen);
            }
        }
        let names: &[&str] = if with_seminars { &["seminar.lola"] } else { &["hiring.lola", "hiring_lookup.lola"] };
        for name in names {
            prop_assert_eq!(&triggers(&spec_text(name), &csv, None), &expected, "{}", name);
        }
    }

    /// COMPAS with a horizon of 3 days instead of 730 and κ = 4 instead of 100: at each tick, the people are
    /// counted for whom it is the third tick.
    #[test]
    fn equalized_odds_are_violated_when_the_counts_say_so(
        people in prop::collection::vec(person(), 1..40),
    ) {
        let (csv, last_event) = screenings(&people);
        let last_tick = last_event / DAY + 4;

        let mut expected = Vec::new();
        // For each group, with and without an offence: number rated high risk, and total.
        let mut counts: [BTreeMap<u8, (u32, u32)>; 2] = Default::default();
        for tick in 1..=last_tick {
            let now = tick * DAY;
            let mut screened = 0;
            for (group, score, step, offence) in &people {
                screened += step * HOUR;
                if screened > now {
                    continue;
                }
                // A screening at the time of a tick precedes it, so that tick is its first.
                let first_tick = screened.div_ceil(DAY);
                for counts in &mut counts {
                    counts.entry(*group).or_default();
                }
                if tick == first_tick + 2 {
                    let offended = offence.is_some_and(|hours| screened + hours * HOUR <= now);
                    let (high, all) = counts[usize::from(!offended)].entry(*group).or_default();
                    *high += u32::from(*score > 6);
                    *all += 1;
                }
            }
            for (index, counts) in counts.iter().enumerate() {
                if gap(counts.values(), 0.5, 4.0) > 0.1 {
                    expected.push(format!("{now}s trigger_{index}"));
                }
            }
        }
        let spec = spec_text("compas.lola");
        let small = spec
            .replace("730d", "3d")
            .replace("= 730", "= 3")
            .replace("last(or: 100)", "last(or: 4)")
            .replace("last(or: 50)", "last(or: 2)");
        assert_eq!(small.matches("= 3").count() + small.matches("3d").count(), 8, "the horizon stands where it was");
        let until = Time(i64::from(last_tick * DAY) * 1_000_000_000);
        prop_assert_eq!(triggers(&small, &csv, Some(until)), expected);
    }

    /// COMPAS with a clock for each person, a horizon of 3 days instead of 730 and κ = 4 instead of
    /// 100: each person counts at the first tick that is not before the deadline.
    #[test]
    fn equalized_odds_at_deadlines_are_violated_when_the_counts_say_so(
        people in prop::collection::vec(person(), 1..40),
    ) {
        let (csv, last_event) = screenings(&people);
        let last_tick = last_event / DAY + 5;

        let mut expected = Vec::new();
        for tick in 1..=last_tick {
            let now = tick * DAY;
            // For each group, with and without an offence: number rated high risk, and total.
            let mut counts: [BTreeMap<u8, (u32, u32)>; 2] = Default::default();
            let mut screened = 0;
            for (group, score, step, offence) in &people {
                screened += step * HOUR;
                if screened <= now {
                    let offended = offence.is_some_and(|hours| hours <= 3 * 24);
                    let over = u32::from(screened + 3 * DAY <= now);
                    counts[usize::from(offended)].entry(*group).or_default();
                    let (high, all) = counts[usize::from(!offended)].entry(*group).or_default();
                    *high += over * u32::from(*score > 6);
                    *all += over;
                }
            }
            for (index, counts) in counts.iter().enumerate() {
                if gap(counts.values(), 0.5, 4.0) > 0.1 {
                    expected.push(format!("{now}s trigger_{index}"));
                }
            }
        }
        let spec = spec_text("compas_deadline.lola");
        let small =
            spec.replace("730d", "3d").replace("last(or: 100)", "last(or: 4)").replace("last(or: 50)", "last(or: 2)");
        assert_eq!(small.matches("@Local(3d)").count(), 3, "the horizon stands where it was");
        let until = Time(i64::from(last_tick * DAY) * 1_000_000_000);
        prop_assert_eq!(triggers(&small, &csv, Some(until)), expected);
    }
}
