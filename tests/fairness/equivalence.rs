//! The paper's specifications, written by hand, and the fairness files of the same name give the same
//! triggers on the same data.

use std::fmt::Write;

use fairstream_core::{RunOptions, Selection, Time};
use fairstream_engine::Specification;
use proptest::prelude::*;

use super::run::compile;
use crate::support::{Collect, root, run, sources};

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// `TIME TRIGGER INSTANCE`, in order.
fn triggers(spec: &Specification, csv: &str, until: Option<Time>) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events.csv");
    std::fs::write(&path, csv).unwrap();
    let collect = Collect::new(Selection::Triggers);
    let options = RunOptions { until, ..RunOptions::default() };
    let report = run(spec, sources(spec, &[path], 8192), vec![Box::new(collect.clone())], options);
    assert!(report.error.is_none(), "{:?}", report.error);
    collect.lines().iter().map(|line| line.split(" ! ").next().unwrap().to_owned()).collect()
}

/// The triggers of the fairness file, and of the specification written by hand; `change` modifies the text of
/// both.
fn both(
    name: &str,
    by_hand: &str,
    csv: &str,
    until: Option<Time>,
    change: &[(&str, &str, &str)],
) -> [Vec<String>; 2] {
    let (mut toml, mut lola) =
        (read(&format!("specs/{name}.toml")), read(&format!("specs/rtlola/{by_hand}.lola")));
    for (in_toml, in_lola, to) in change {
        assert!(toml.contains(in_toml) && lola.contains(in_lola), "{in_toml} {in_lola}");
        toml = toml.replace(in_toml, &in_toml.replace("730d", to));
        lola = lola.replace(in_lola, &in_lola.replace("730d", to));
    }
    let spec = Specification::parse(by_hand, &lola).unwrap();
    [triggers(&compile(&toml).1, csv, until), triggers(&spec, csv, until)]
}

#[test]
fn the_hiring_example() {
    let csv = read("examples/hiring/events.csv");
    for by_hand in ["hiring", "hiring_lookup"] {
        let [compiled, by_hand] = both("hiring", by_hand, &csv, None, &[]);
        assert_eq!(compiled.len(), 130);
        assert_eq!(compiled, by_hand);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hiring_and_seminars(people in prop::collection::vec((0..3_u8, 0..3_u8, prop::option::weighted(0.4, 1..5_i64)), 1..120)) {
        let mut events: Vec<(i64, String)> = Vec::new();
        for (id, (group, seminar, accepted)) in people.iter().enumerate() {
            let time = id as i64;
            events.push((time, format!("{id},g{group},0.5,s{seminar},")));
            events.extend(accepted.map(|later| (time + later, format!(",,,s{seminar},{id}"))));
        }
        events.sort_by_key(|(time, _)| *time);
        let mut csv = String::from("time,id,gender,qualification,seminar,accepted\n");
        events.iter().for_each(|(time, event)| writeln!(csv, "{time},{event}").unwrap());
        for (name, by_hand) in [("hiring", "hiring"), ("seminar", "seminar")] {
            let [compiled, by_hand] = both(name, by_hand, &csv, None, &[]);
            prop_assert_eq!(compiled, by_hand, "{}", name);
        }
    }

    /// A horizon of three days instead of two years.
    #[test]
    fn screenings(people in prop::collection::vec((0..3_u8, 0..11_i64, 0..40_i64, prop::option::of(0..90_i64)), 1..60)) {
        const HOUR: i64 = 3600;
        let mut events: Vec<(i64, String)> = Vec::new();
        let mut time = 0;
        for (id, (group, score, step, offence)) in people.iter().enumerate() {
            time += step * HOUR;
            events.push((time, format!("SCREEN,{id},g{group},{score}")));
            events.extend(offence.map(|hours| (time + hours * HOUR, format!("RECIDIVISM,{id},,"))));
        }
        events.sort_by_key(|(time, _)| *time);
        let mut csv = String::from("time,event,id,group,score\n");
        events.iter().for_each(|(time, event)| writeln!(csv, "{time},{event}").unwrap());
        let until = Time((events.last().unwrap().0 + 120 * HOUR) * 1_000_000_000);
        let change = [("horizon = \"730d\"", "@Local(730d)", "3d")];
        let [compiled, by_hand] = both("compas", "compas_deadline", &csv, Some(until), &change);
        prop_assert_eq!(compiled, by_hand);
    }
}

/// ProPublica's table as events in order of time; an id for each screening. `None` if the file does not exist.
fn compas_events() -> Option<String> {
    let path = std::env::var_os("FAIRSTREAM_COMPAS")
        .map_or_else(|| root().join("../shared/data/compas-scores.csv"), std::path::PathBuf::from);
    let mut table = csv::Reader::from_path(path).ok()?;
    let header = table.headers().ok()?.clone();
    let column = |name: &str| header.iter().position(|other| other == name).unwrap();
    let [date, race, score, offence] =
        ["compas_screening_date", "race", "decile_score", "r_offense_date"].map(column);
    let mut events: Vec<(String, u8, String)> = Vec::new();
    for (id, record) in table.records().enumerate() {
        let record = record.ok()?;
        if !(1..=10).contains(&record[score].parse().unwrap_or(0)) {
            continue;
        }
        events.push((
            record[date].to_owned(),
            0,
            format!("SCREEN,{id},{},{}", &record[race], &record[score]),
        ));
        if record[offence] > record[date] {
            events.push((record[offence].to_owned(), 1, format!("RECIDIVISM,{id},,")));
        }
    }
    events.sort();
    let mut csv = String::from("time,event,id,group,score\n");
    events.iter().for_each(|(time, _, event)| writeln!(csv, "{time}T00:00:00Z,{event}").unwrap());
    Some(csv)
}

#[test]
#[allow(clippy::print_stderr, reason = "a skipped test prints the reason")]
fn the_compas_data() {
    let Some(csv) = compas_events() else {
        eprintln!("SKIPPED: there is no COMPAS data; set FAIRSTREAM_COMPAS to compas-scores.csv");
        return;
    };
    let until = "2017-06-01".parse().unwrap();
    let [compiled, by_hand] = both("compas", "compas_deadline", &csv, Some(until), &[]);
    assert!(compiled.len() > 400, "{} triggers", compiled.len());
    assert_eq!(compiled, by_hand);
}
