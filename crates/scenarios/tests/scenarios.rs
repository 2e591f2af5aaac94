//! Scenarios fulfil the contract of `Source`, and their events match their description.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;
use std::time::Duration;

use fairstream_core::compliance::{SourceCase, check_source};
use fairstream_core::{ColumnValues, Options, Source, SourceContext, SourceFactory, SourceRequest, Value};
use fairstream_scenarios::{
    Admissions, Algorithm, BERKELEY_1973, Groups, Hiring, Scenario, Seminar, scenarios,
};
use proptest::prelude::*;

fn scenario(name: &str) -> Scenario {
    scenarios().into_iter().find(|scenario| scenario.adapter().name == name).unwrap()
}

fn request(name: &str) -> SourceRequest {
    SourceRequest { wanted: scenario(name).columns(), ..SourceRequest::default() }
}

/// An event: its time in nanoseconds, and each value as text.
type Row = (i64, Vec<Option<String>>);

fn rows(mut source: Box<dyn Source>) -> Vec<Row> {
    let mut rows = Vec::new();
    while let Some(batch) = source.next_batch().unwrap() {
        let columns: Vec<ColumnValues> =
            batch.rows.columns().iter().map(|column| ColumnValues::of(column).unwrap()).collect();
        rows.extend((0..batch.len()).map(|row| {
            let values =
                columns.iter().map(|column| column.at(row).map(|value: Value<'_>| value.to_string()));
            (batch.time(row).0, values.collect())
        }));
    }
    rows
}

fn hiring(setup: &Hiring) -> Vec<Row> {
    rows(setup.source(&request("hiring")).unwrap())
}

fn seminar(setup: &Seminar) -> Vec<Row> {
    rows(setup.source(&request("seminar")).unwrap())
}

fn admissions(setup: &Admissions) -> Vec<Row> {
    rows(setup.source(&request("admissions")).unwrap())
}

#[test]
fn sources_comply() {
    for (name, options, count) in [
        ("hiring", "applicants=5&accept=a=1,b=1&delay=10m", 10),
        ("seminar", "applicants=30&places=2&seminars=2&term=10&algorithm=randomize", 30 + 3 * 4),
        ("admissions", "applicants=20", 20),
    ] {
        // Other integer types are accepted where the numbers fit.
        let mut good = request(name);
        good.options = options.split('&').map(|pair| pair.split_once('=').unwrap()).collect();
        good.wanted[0].data_type = arrow::datatypes::DataType::Int16;
        check_source(&SourceCase {
            factory: &scenario(name),
            missing: SourceRequest { location: "nowhere".to_owned(), ..good.clone() },
            good,
            rows: count,
            bad: None,
            cut_off: None,
            live: None,
        });
    }
}

#[test]
fn only_what_is_wanted_is_there_and_a_type_that_does_not_fit_stays_as_it_is() {
    let mut wanted = request("hiring");
    wanted.wanted.remove(0);
    wanted.wanted[0].data_type = arrow::datatypes::DataType::Boolean;
    let source = Hiring::default().source(&wanted).unwrap();
    let schema = source.schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["gender", "accepted"]);
    assert_eq!(schema.field(0).data_type(), &arrow::datatypes::DataType::Utf8);
    assert_eq!(source.offers(), ["id", "gender", "accepted"]);
    // An id that does not fit is an error, never another id.
    let mut narrow = request("hiring");
    narrow.wanted[0].data_type = arrow::datatypes::DataType::Int8;
    let mut source = Hiring::default().source(&narrow).unwrap();
    assert!(
        source.next_batch().unwrap_err().to_string().starts_with("cannot read hiring (seed 1) after row")
    );
}

/// FNV-1a of all events.
fn fingerprint(rows: &[Row]) -> u64 {
    let text: String = rows.iter().map(|row| format!("{row:?}\n")).collect();
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// These numbers must never change, on any machine: people cite seeds.
#[test]
fn the_same_seed_gives_the_same_events() {
    let unlike = Seminar {
        applicants: 1000,
        late: Groups::new([("F", 0.3)]),
        qualification: Groups::new([("M", 65.0)]),
        ..Seminar::default()
    };
    let mut found = vec![("hiring", fingerprint(&hiring(&Hiring::default())))];
    for algorithm in Algorithm::ALL {
        found.push((algorithm.name(), fingerprint(&seminar(&Seminar { algorithm, ..unlike.clone() }))));
    }
    found.push(("admissions", fingerprint(&admissions(&Admissions::default()))));
    assert_eq!(
        found,
        [
            ("hiring", 2303595919154775247),
            ("first-come-first-served", 4485794185187177092),
            ("randomize", 8618377549169877317),
            ("qualification", 11947548597635815078),
            ("equal-gender", 10879396723579079992),
            ("admissions", 8397644996871114791),
        ]
    );
    assert_ne!(hiring(&Hiring::default()), hiring(&Hiring { seed: 2, ..Hiring::default() }));
    assert_ne!(seminar(&unlike), seminar(&Seminar { seed: 2, ..unlike.clone() }));
    assert_ne!(
        admissions(&Admissions::default()),
        admissions(&Admissions { seed: 2, ..Admissions::default() })
    );
}

/// Acceptances and applications of each group. Also checks invariants of all lists of applications: time does not
/// run backwards, ids are new, and an accepted person has applied and was not accepted before.
fn count_by_group(rows: &[Row], gender: usize, accepted: usize) -> BTreeMap<String, (u32, u32)> {
    let mut groups: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    let mut waiting: HashMap<&String, &String> = HashMap::new();
    assert!(rows.is_sorted_by_key(|(time, _)| *time));
    for (_, values) in rows {
        if let Some(id) = &values[0] {
            let gender = values[gender].as_ref().unwrap();
            assert!(values[accepted].is_none() && waiting.insert(id, gender).is_none());
            groups.entry(gender.clone()).or_default().1 += 1;
        } else {
            assert!(values[gender].is_none());
            let gender = waiting.remove(values[accepted].as_ref().unwrap()).expect("applied before, once");
            groups.get_mut(gender).unwrap().0 += 1;
        }
    }
    groups
}

fn rate((accepted, applied): (u32, u32)) -> f64 {
    f64::from(accepted) / f64::from(applied)
}

#[test]
fn hiring_accepts_each_group_with_its_probability() {
    let setup = Hiring {
        applicants: 60_000,
        accept: Groups::new([("a", 0.5), ("b", 0.2), ("c", 0.0), ("d", 1.0)]),
        share: Groups::new([("a", 3.0)]),
        delay: Duration::from_secs(3600),
        ..Hiring::default()
    };
    let groups = count_by_group(&hiring(&setup), 1, 2);
    for (name, share, accept) in
        [("a", 0.5, 0.5), ("b", 1.0 / 6.0, 0.2), ("c", 1.0 / 6.0, 0.0), ("d", 1.0 / 6.0, 1.0)]
    {
        // Five standard deviations.
        let within = |found: f64, expected: f64, count: f64| {
            (found - expected).abs() <= 5.0 * (expected * (1.0 - expected) / count).sqrt()
        };
        let (_, applied) = groups[name];
        assert!(within(f64::from(applied) / 60_000.0, share, 60_000.0), "{name}: {applied}");
        assert!(within(rate(groups[name]), accept, f64::from(applied)), "{name}: {:?}", groups[name]);
    }
}

/// The gap between the rates of the two groups.
fn gap(setup: &Seminar) -> f64 {
    let groups = count_by_group(&seminar(setup), 1, 4);
    (rate(groups["M"]) - rate(groups["F"])).abs()
}

#[test]
fn algorithms_are_unfair_about_what_they_look_at() {
    use Algorithm::{EqualGender, FirstComeFirstServed, Qualification, Randomize};
    let same = Seminar { applicants: 20_000, ..Seminar::default() };
    let late = Seminar { late: Groups::new([("F", 0.5)]), ..same.clone() };
    let better = Seminar { qualification: Groups::new([("M", 70.0)]), ..same.clone() };
    for (setup, unfair) in
        [(&same, None), (&late, Some(FirstComeFirstServed)), (&better, Some(Qualification))]
    {
        for algorithm in Algorithm::ALL {
            let gap = gap(&Seminar { algorithm, ..setup.clone() });
            let expected = match algorithm {
                EqualGender => 0.0..0.002,
                _ if Some(algorithm) == unfair => 0.2..1.0,
                FirstComeFirstServed | Qualification | Randomize => 0.0..0.025,
            };
            assert!(expected.contains(&gap), "{algorithm:?} {setup:?}: {gap}");
        }
    }
    // Equal rates do not depend on equal numbers.
    let few =
        Seminar { share: Groups::new([("M", 9.0), ("F", 1.0)]), algorithm: EqualGender, ..late.clone() };
    assert!(gap(&few) < 0.01);
    // In the long run: the gap shrinks.
    let gaps = [100, 1000, 10_000, 100_000]
        .map(|applicants| gap(&Seminar { applicants, algorithm: EqualGender, ..late.clone() }));
    assert!(gaps[3] < 0.001 && gaps[3] < gaps[0], "{gaps:?}");
    let unfair = gap(&Seminar { applicants: 100_000, ..late.clone() });
    assert!(unfair > 0.2, "{unfair}");
}

#[test]
fn the_same_people_apply_whatever_the_algorithm() {
    let applications = Algorithm::ALL.map(|algorithm| {
        let mut rows = seminar(&Seminar { applicants: 500, algorithm, ..Seminar::default() });
        rows.retain(|(_, values)| values[0].is_some());
        rows
    });
    assert_eq!(applications[0].len(), 500);
    assert!(applications.iter().all(|one| *one == applications[0]));
}

fn setups() -> impl Strategy<Value = Seminar> {
    let counts = (1..400_u64, 1..6_u32, 1..12_u32, 1..60_u32);
    let algorithm = (0..4_usize).prop_map(|index| Algorithm::ALL[index]);
    (counts, algorithm, any::<u64>(), 0.0..0.9, 0.0..100.0).prop_map(
        |((applicants, seminars, places, term), algorithm, seed, late, points)| Seminar {
            applicants,
            seminars,
            places,
            term,
            algorithm,
            seed,
            late: Groups::new([("b", late)]),
            qualification: Groups::new([("a", points)]),
            share: Groups::new([("a", 2.0), ("b", 1.0), ("c", 1.0)]),
            every: Duration::from_millis(if seed.is_multiple_of(2) { 1000 } else { 60_000 }),
            ..Seminar::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn places_are_given_to_applicants_and_no_more_than_there_are(setup in setups()) {
        let rows = seminar(&setup);
        let groups = count_by_group(&rows, 1, 4);
        let applied: u32 = groups.values().map(|(_, applied)| applied).sum();
        prop_assert_eq!(u64::from(applied), setup.applicants);
        prop_assert!(rows.is_sorted_by(|one, other| one.0 < other.0), "no two at once");
        // Ids are assigned in order of application, so the term of a person follows from the id.
        let mut places: HashMap<(u64, &String), (u32, u32)> = HashMap::new();
        for (_, values) in &rows {
            let id: u64 = values[0].as_ref().or(values[4].as_ref()).unwrap().parse().unwrap();
            let term = (id - 1) / u64::from(setup.term);
            let (wanted, given) = places.entry((term, values[3].as_ref().unwrap())).or_default();
            *(if values[0].is_some() { wanted } else { given }) += 1;
            if let Some(points) = &values[2] {
                prop_assert!((0..=100).contains(&points.parse::<i64>().unwrap()));
            }
        }
        for (wanted, given) in places.values() {
            prop_assert_eq!(*given, setup.places.min(*wanted), "no place stays free while there are applicants");
        }
    }

    #[test]
    fn the_size_of_batches_changes_nothing(setup in setups(), max_rows in 1..300_usize) {
        let context = SourceContext { max_rows: NonZeroUsize::new(max_rows).unwrap(), ..SourceContext::default() };
        let cut = rows(setup.source(&SourceRequest { context, ..request("seminar") }).unwrap());
        prop_assert_eq!(cut, seminar(&setup));
    }
}

#[test]
fn berkeley_is_the_table() {
    let rows = admissions(&Admissions { seed: 9, ..Admissions::default() });
    assert_eq!(rows.len(), 4526);
    let mut counts: BTreeMap<[&str; 3], u64> = BTreeMap::new();
    for (index, (time, values)) in rows.iter().enumerate() {
        let values: Vec<&str> = values.iter().map(|value| value.as_deref().unwrap()).collect();
        let [id, gender, department, admitted] = values[..] else { panic!("four columns") };
        assert_eq!((id, *time), ((index + 1).to_string().as_str(), (index as i64 + 1) * 60_000_000_000));
        *counts.entry([department, gender, admitted]).or_default() += 1;
    }
    for department in BERKELEY_1973 {
        for (gender, expected) in [("M", department.men), ("F", department.women)] {
            let found = ["true", "false"].map(|admitted| counts[&[department.name, gender, admitted]]);
            assert_eq!(found, expected, "{} {gender}", department.name);
        }
    }
    // As published: 44.5 % of the men and 30.4 % of the women.
    let all = |gender: &str| {
        let of = |admitted: &str| -> u64 {
            counts
                .iter()
                .filter(|(key, _)| key[1] == gender && key[2] == admitted)
                .map(|(_, count)| count)
                .sum()
        };
        (of("true"), of("true") + of("false"))
    };
    assert_eq!((all("M"), all("F")), ((1198, 2691), (557, 1835)));
}

#[test]
fn berkeley_by_lot_has_the_frequencies_of_the_table() {
    let rows = admissions(&Admissions { applicants: Some(100_000), ..Admissions::default() });
    assert_eq!(rows.len(), 100_000);
    for department in BERKELEY_1973 {
        let women = department.women[0] + department.women[1];
        let drawn = rows.iter().filter(|(_, values)| {
            values[1].as_deref() == Some("F") && values[2].as_deref() == Some(department.name)
        });
        let (found, expected) = (drawn.count() as f64, women as f64 / 4526.0 * 100_000.0);
        assert!((found - expected).abs() < 5.0 * expected.sqrt(), "{}: {found} {expected}", department.name);
    }
}

/// The first error for these options.
fn refusal(name: &str, options: &[(&str, &str)]) -> String {
    let options: Options = options.iter().copied().collect();
    match scenario(name).open(&SourceRequest { options, ..request(name) }) {
        Ok(_) => "it is fine".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_a_reason() {
    for (name, key, value, reason) in [
        ("hiring", "applicants", "0", "it has to be a whole number from 1 on"),
        ("hiring", "applicants", "1e6", "it has to be a whole number from 1 on"),
        ("hiring", "accept", "M=2", "2 for `M` is not between 0 and 1"),
        ("hiring", "share", "m=2", "there is no group `m`; did you mean `M`?"),
        ("hiring", "share", "M=0,F=0", "somebody has to apply"),
        ("hiring", "every", "0s", "it has to be longer than that"),
        (
            "hiring",
            "applicants",
            "1000000000000",
            "1000000000000 of them take more than 292 years; set a shorter `every`",
        ),
        (
            "hiring",
            "applicants",
            "18446744073709551615",
            "18446744073709551615 of them take more than 292 years; set a shorter `every`",
        ),
        ("seminar", "seminars", "0", "it has to be a whole number from 1 on"),
        ("seminar", "term", "4000000000", "it has to be between 1 and 1000000"),
        ("seminar", "every", "500ms", "it has to be a second at least"),
        ("seminar", "algorithm", "randomise", "there is no such algorithm; did you mean `randomize`?"),
        ("seminar", "late", "F=1", "1 for `F` is not between 0 and 0.999"),
        ("seminar", "qualification", "X=50", "there is no group `X`; there are `M`, `F`"),
        ("seminar", "spread", "-1", "it has to be a number from 0 on"),
        ("admissions", "applicants", "-3", "it has to be a whole number from 1 on"),
    ] {
        assert_eq!(refusal(name, &[(key, value)]), format!("{name}: option `{key}={value}`: {reason}"));
    }
    assert_eq!(refusal("hiring", &[("share", "M=0")]), "it is fine", "one group of two may stay away");
}
