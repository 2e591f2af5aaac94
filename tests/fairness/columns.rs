//! Columns under any name, rows as trials, groups that are made from columns, unknown outcomes: the verdicts are those of
//! the same data with plain columns.

use std::collections::BTreeMap;
use std::fmt::Write;

use fairstream_core::{Selection, Time};
use proptest::prelude::*;
use proptest::sample::select;

use super::run::{Observed, observe};
use crate::support::{compiled, interpreted, reference};

/// A row of a table with one case a row.
#[derive(Clone, Debug)]
struct Person {
    sex: Option<&'static str>,
    age: Option<u64>,
    hired: bool,
    /// What came of it, if that is known.
    good: Option<bool>,
}

fn people() -> impl Strategy<Value = Vec<Person>> {
    let sex = prop_oneof![9 => select(vec!["1", "2", "9"]).prop_map(Some), 1 => Just(None)];
    let age = prop_oneof![9 => (16_u64..90).prop_map(Some), 1 => Just(None)];
    let person = (sex, age, any::<bool>(), any::<Option<bool>>());
    let person = person.prop_map(|(sex, age, hired, good)| Person { sex, age, hired, good });
    prop::collection::vec(person, 1..60)
}

fn shown<T: ToString>(value: Option<T>) -> String {
    value.as_ref().map(ToString::to_string).unwrap_or_default()
}

/// A CSV file with these columns.
fn csv(header: &[&str], people: &[Person], fields: impl Fn(usize, &Person) -> Vec<String>) -> String {
    let quoted: Vec<String> =
        header.iter().map(|name| format!("\"{}\"", name.replace('"', "\"\""))).collect();
    let mut text = format!("time,{}\n", quoted.join(","));
    for (index, person) in people.iter().enumerate() {
        writeln!(text, "{index},{}", fields(index, person).join(",")).unwrap();
    }
    text
}

fn basic(_: usize, person: &Person) -> Vec<String> {
    vec![shown(person.sex), shown(person.age), person.hired.to_string(), shown(person.good)]
}

/// What is asked of a person.
type Condition = fn(&Person) -> bool;

/// The final state: for each rate and group its counts; and every alarm.
type Outcome = (BTreeMap<((usize, usize), String), (f64, u64, u64)>, Vec<(Time, String)>);

fn outcome(observed: &Observed) -> Outcome {
    let mut counts = BTreeMap::new();
    for standing in &observed.standings {
        for group in &standing.groups {
            counts.insert(
                (standing.rate_index, group.group.clone()),
                (group.numerator, group.denominator, group.unknown),
            );
        }
    }
    (counts, observed.messages.iter().map(|(_, time, message)| (*time, message.clone())).collect())
}

/// Runs on every engine, with large and small batches, and returns the outcome, which must be the same.
fn run(toml: &str, csv: &str) -> Result<Outcome, TestCaseError> {
    let until = Time(1_000_000_000_000);
    let first = observe(toml, csv, until, compiled, 8192, Selection::Changes);
    for (build, rows) in [(compiled as crate::support::BuildFor, 3), (interpreted, 8192), (reference, 7)] {
        let other = observe(toml, csv, until, build, rows, Selection::Changes);
        prop_assert_eq!(outcome(&first), outcome(&other));
        prop_assert_eq!(&first.lines, &other.lines);
    }
    Ok(outcome(&first))
}

fn metric(keys: &str) -> String {
    format!("[[fairness]]\nmetric = \"demographic-parity\"\ndecision = \"hired\"\ntolerance = 0.05\n{keys}\n")
}

/// A fairness file over columns with these names, for `sex`, `age`, `hired` and `good`.
fn named(names: [&str; 4], trial: &str, key: &str) -> String {
    let key_of_toml = |name: &str| format!("\"{name}\"");
    let [sex, age, hired, good] = names.map(key_of_toml);
    format!(
        "[events.columns]\nid = \"UInt64\"\n{sex} = \"String\"\n{age} = \"UInt64\"\n{hired} = \"Bool\"\n{good} = \"Bool\"\n\
         [trial]\nkey = \"{key}\"\ngroup = {sex}\n{trial}\n[indicators]\n\
         hired = '`{}`'\nyoung = '`{}` < 30'\n{}",
        names[2],
        names[1],
        metric("guarantee = { false_alarms = 0.3, block = 2 }")
            + "[[fairness]]\nmetric = \"probability\"\nof = \"hired\"\ngiven = \"young\"\ntolerance = 0.2\n",
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    /// A column may have any name without a backtick or a line break.
    #[test]
    fn a_name_of_a_column_changes_nothing(
        people in people(),
        names in prop::collection::hash_set(
            prop_oneof![
                "[^`\\p{C}\\p{Z}]{1,12}( [^`\\p{C}\\p{Z}]{1,5})?".prop_filter("has no quotes of TOML", |name| !name.contains(['\'', '"', '\\', ','])),
                select(vec![
                    "output", "input", "trigger", "over", "trial", "openings", "if", "true", "row", "now", "cast",
                    "Bool", "hired", "is_hired", "far", "g", "two.year?", "Größe", "2nd", "_", "a-b", "QK¥¾& %Y", "^מּ憎𡓤Ø_꧷<b", "a b", "min",
                ]).prop_map(str::to_owned),
            ],
            4,
        ),
    ) {
        let names: Vec<&str> = names.iter().map(String::as_str).filter(|name| !["id", "time"].contains(name)).collect();
        prop_assume!(names.len() == 4);
        let with_id = |index: usize, person: &Person| [vec![(index + 1).to_string()], basic(index, person)].concat();
        let plain = ["sex", "age", "hired", "good"];
        let table = |names: &[&str]| csv(&[&["id"], names].concat(), &people, with_id);
        let expected = run(&named(plain, "horizon = \"0s\"", "id"), &table(&plain))?;
        let other = [names[0], names[1], names[2], names[3]];
        prop_assert_eq!(run(&named(other, "horizon = \"0s\"", "id"), &table(&other))?, expected);
    }

    /// Each row is a trial: the same as a key that is different in each row.
    #[test]
    fn rows_are_trials(people in people()) {
        let names = ["sex", "age", "hired", "good"];
        let table = csv(&["id", "sex", "age", "hired", "good"], &people, |index, person| {
            [vec![(index + 1).to_string()], basic(index, person)].concat()
        });
        let expected = run(&named(names, "horizon = \"0s\"", "id"), &table)?;
        prop_assert_eq!(run(&named(names, "", "row"), &table)?, expected);
    }

    /// Bins, labels and values to leave out: the same as columns with the groups. Several comparisons in one file: the
    /// counts of a file for each.
    #[test]
    fn groups_are_made_from_columns(people in people()) {
        let columns = "[events.columns]\nsex = \"UInt8\"\nage = \"UInt64\"\nhired = \"Bool\"\ngood = \"Bool\"\ngender = \"String\"\nbin = \"String\"\n\
             [indicators]\nhired = 'hired'\n";
        let groups = "[groups]\ngender_of = { column = \"sex\", labels = { 1 = \"male\", 2 = \"female\" }, except = [\"9\"] }\n\
             age = { bins = [25, 40, 65] }\n";
        let of_sex = |person: &Person| person.sex.and_then(|sex| match sex {
            "1" => Some("male"),
            "2" => Some("female"),
            _ => None,
        });
        let of_age = |person: &Person| person.age.map(|age| match age {
            0..25 => "under 25",
            25..40 => "25 to under 40",
            40..65 => "40 to under 65",
            _ => "65 or more",
        });
        let table = csv(&["sex", "age", "hired", "good", "gender", "bin"], &people, |index, person| {
            [basic(index, person), vec![shown(of_sex(person)), shown(of_age(person))]].concat()
        });
        let map = "rule = \"map\"\nmin_trials = 3\nconfidence = 0";
        let file = |groups: &str, group: &str| format!("{columns}{groups}[trial]\nkey = \"row\"\ngroup = {group}\n{}", metric(map));
        let counts = |outcome: Outcome, rate: usize| -> BTreeMap<String, (f64, u64, u64)> {
            outcome.0.into_iter().filter(|((of, _), _)| *of == (rate, 0)).map(|((_, group), counts)| (group, counts)).collect()
        };
        for (made, plain) in [
            (r#""gender_of""#, r#""gender""#),
            (r#""age""#, r#""bin""#),
            (r#"["gender_of", "age"]"#, r#"["gender", "bin"]"#),
            (r#"{ column = "sex", labels = { 1 = "male", 2 = "female" }, except = "9" }"#, r#""gender""#),
        ] {
            prop_assert_eq!(run(&file(groups, made), &table)?, run(&file("", plain), &table)?);
        }
        let together = run(&file(groups, r#"[["gender_of"], ["age"], ["gender_of", "age"]]"#), &table)?;
        for (rate, alone) in [r#""gender""#, r#""bin""#, r#"["gender", "bin"]"#].into_iter().enumerate() {
            prop_assert_eq!(counts(together.clone(), rate), counts(run(&file("", alone), &table)?, 0));
        }
    }

    /// A trial whose outcome is not known is neither positive nor negative.
    #[test]
    fn unknown_is_not_no(people in people(), known_of_metric: bool) {
        let (of_indicator, of_metric) = if known_of_metric { ("", "known = \"labelled\"") } else { ("known = \"labelled\"", "") };
        let toml = format!(
            "[events.columns]\nsex = \"String\"\nage = \"UInt64\"\nhired = \"Bool\"\ngood = \"Bool\"\n\
             [trial]\nkey = \"row\"\ngroup = \"sex\"\n[indicators]\nhired = 'hired'\n\
             good = {{ when = 'good'{}{of_indicator} }}\nlabelled = 'good in [true, false]'\n\
             [[fairness]]\nmetric = \"equalized-odds\"\nprediction = \"hired\"\noutcome = \"good\"\ntolerance = 0.1\n{of_metric}\n\
             [[fairness]]\nmetric = \"predictive-parity\"\nprediction = \"hired\"\noutcome = \"good\"\ntolerance = 0.1\n{of_metric}\n",
            if known_of_metric { "" } else { ", " }
        );
        let (counts, _) = run(&toml, &csv(&["sex", "age", "hired", "good"], &people, basic))?;
        let mut expected = BTreeMap::new();
        for sex in people.iter().filter_map(|person| person.sex) {
            let of = |wanted: Condition| {
                people.iter().filter(|person| person.sex == Some(sex) && wanted(person)).count()
            };
            let rates: [[Condition; 3]; 3] = [
                [|p| p.hired && p.good == Some(true), |p| p.good == Some(true), |p| p.good.is_none()],
                [|p| p.hired && p.good == Some(false), |p| p.good == Some(false), |p| p.good.is_none()],
                [|p| p.hired && p.good == Some(true), |p| p.hired && p.good.is_some(), |p| p.hired && p.good.is_none()],
            ];
            for (rate, [numerator, denominator, unknown]) in [(0, 0), (0, 1), (1, 0)].into_iter().zip(rates) {
                let counts = (of(numerator) as f64, of(denominator) as u64, of(unknown) as u64);
                expected.insert((rate, sex.to_owned()), counts);
            }
        }
        prop_assert_eq!(counts, expected);
    }
}
