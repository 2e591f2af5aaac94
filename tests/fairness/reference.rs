//! Groups that are compared with a reference group: against the independent calculations, and by hand.

use std::fmt::Write;

use fairstream_core::{Selection, Time};
use fairstream_fairness::{AlarmedGroup, Comparison, Compiled, FairnessFile};
use proptest::prelude::*;
use proptest::sample::select;

use super::draw::{Plan, guaranteed, plan, rows, unfair_rows};
use super::run::{Observed, compile, csv, observe};
use crate::support::{compiled, interpreted, reference};

/// The metrics that compare groups, each with its own formula.
fn metric() -> impl Strategy<Value = &'static str> {
    select(vec![
        "demographic-parity",
        "conditional-statistical-parity",
        "equalized-odds",
        "disparate-impact",
        "mean-difference",
    ])
}

/// One of the groups as the reference; `X` occurs in few of the rows.
fn beside(plan: impl Strategy<Value = Plan>) -> impl Strategy<Value = Plan> {
    (plan, select(vec!["M", "F", "F", "X"]))
        .prop_map(|(plan, gender)| Plan { reference: Some(gender), ..plan })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn by_the_rule_of_the_paper(plan in metric().prop_flat_map(|metric| beside(plan(metric))), rows in rows()) {
        super::check(&plan, &rows)?;
    }

    #[test]
    fn with_a_guarantee(
        plan in metric().prop_flat_map(|metric| beside(guaranteed(metric))), rows in prop_oneof![rows(), unfair_rows()],
    ) {
        super::guarantee::check(&plan, &rows)?;
    }
}

/// Ensures that the cases above include alarms, and that one of their two groups is the reference.
#[test]
fn alarms_are_about_the_reference_and_another_group() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut raised = 0;
    for number in 0..60 {
        let metric = ["demographic-parity", "disparate-impact"][number % 2];
        let plan = guaranteed(metric).new_tree(&mut runner).unwrap().current();
        let plan = Plan { reference: Some("M"), two_groups: false, ..plan };
        let rows = unfair_rows().new_tree(&mut runner).unwrap().current();
        let until = Time(plan.until(&rows) * 1_000_000_000);
        let observed = observe(&plan.toml(), &csv(&rows), until, compiled, 8192, Selection::Alarms);
        for (_, _, message) in &observed.messages {
            assert!(message.contains("M 0.") || message.contains("M 1."), "{message}");
            raised += 1;
        }
    }
    assert!(raised > 5, "{raised} raised");
}

/// A file without a reference has no trace of one in its text.
#[test]
fn a_reference_changes_no_other_file() {
    let file = file("\"race\"", "String", "metric = \"demographic-parity\"\ntolerance = 0.1");
    let beside = file.replace("\"race\"\nhorizon", "{ column = \"race\", reference = \"White\" }\nhorizon");
    assert_ne!(file, beside);
    let (without, with) = (compile(&file).0, compile(&beside).0);
    assert!(!without.rtlola().contains("reference"), "{}", without.rtlola());
    assert!(with.rtlola().contains("demographic_parity_most(\"White\")"), "{}", with.rtlola());
    // A reference alone makes no groups: the text reads the column itself.
    assert!(with.rtlola().contains("input race : String"), "{}", with.rtlola());
}

/// Each row is a trial that is hired or not.
fn file(group: &str, data_type: &str, metric: &str) -> String {
    format!(
        "[events.columns]\nid = \"UInt64\"\nrace = \"{data_type}\"\nhired = \"Bool\"\n[trial]\nkey = \"id\"\ngroup = {group}\n\
         horizon = \"0s\"\n[indicators]\nhired = {{ when = 'hired', favourable = true }}\n[[fairness]]\n{metric}\n\
         decision = \"hired\"\nconfidence = 0\nrule = \"map\"\n"
    )
}

/// So many people of each group, and how many of them are hired.
fn people(groups: &[(&str, u64, u64)]) -> String {
    let mut csv = "time,id,race,hired\n".to_owned();
    let mut id = 0;
    for (group, trials, hired) in groups {
        for number in 0..*trials {
            writeln!(csv, "{id},{id},\"{}\",{}", group.replace('"', "\"\""), number < *hired).unwrap();
            id += 1;
        }
    }
    csv
}

/// The final state by every engine, which has to be the same.
fn ended(toml: &str, csv: &str) -> Observed {
    let run = |build| observe(toml, csv, Time(1_000_000_000_000), build, 8192, Selection::Changes);
    let (one, other, last) = (run(reference), run(interpreted), run(compiled));
    assert_eq!(one.alarms, other.alarms, "{toml}");
    assert_eq!(other.lines, last.lines, "{toml}");
    let gap = |observed: &Observed| {
        let series = observed.values.get(&observed.streams[0].gap).unwrap();
        series[""].last().unwrap().1
    };
    for observed in [&one, &other, &last] {
        let standing = &observed.standings[0];
        let neutral = if standing.comparison == Comparison::Ratio { 1.0 } else { 0.0 };
        assert_eq!(gap(observed), standing.gap.unwrap_or(neutral), "{toml}");
    }
    last
}

const RACES: [(&str, u64, u64); 3] = [("Asian", 10, 6), ("Black", 10, 3), ("White", 10, 5)];
const DIFFERENCE: &str = "metric = \"demographic-parity\"\ntolerance = 0.25";
const RATIO: &str = "metric = \"impact-ratio\"\ntolerance = 0.55";

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-12
}

/// Rates of 0.6, 0.3 and 0.5. Between any two, the gap is 0.6 − 0.3 = 0.3; from 0.5, it is 0.5 − 0.3 = 0.2.
#[test]
fn a_difference_by_hand() {
    let white = "{ column = \"race\", reference = \"White\" }";
    for (group, gap, has_alarm) in [("\"race\"", 0.3, true), (white, 0.2, false)] {
        let observed = ended(&file(group, "String", DIFFERENCE), &people(&RACES));
        let standing = &observed.standings[0];
        assert!(close(standing.gap.unwrap(), gap), "{:?}", standing.gap);
        assert_eq!(standing.alarm.is_some(), has_alarm);
    }
    // An alarm names the reference and the group that is furthest from it.
    let observed = ended(&file(white, "String", &DIFFERENCE.replace("0.25", "0.15")), &people(&RACES));
    let basis = observed.standings[0].alarm_basis.clone().unwrap();
    let named: Vec<String> = basis.groups.iter().map(AlarmedGroup::label).collect();
    assert!(named.contains(&"White".to_owned()) && named.len() == 2, "{}", basis.message);
}

/// Of the lower rate to the higher: 0.3 / 0.6 = 0.5 between any two; from 0.5, 0.5 / 0.6 = 0.833 and 0.3 / 0.5 = 0.6.
/// Impact ratios are to the reference, and may exceed 1.
#[test]
fn a_ratio_by_hand() {
    let white = "{ column = \"race\", reference = \"White\" }";
    let cases = [("\"race\"", 0.5, [1.0, 0.5, 5.0 / 6.0]), (white, 0.6, [1.2, 0.6, 1.0])];
    for (group, ratio, impact) in cases {
        let toml = file(group, "String", RATIO);
        let observed = ended(&toml, &people(&RACES));
        let standing = &observed.standings[0];
        assert!(close(standing.gap.unwrap(), ratio), "{:?}", standing.gap);
        assert_eq!(standing.alarm.is_some(), ratio < 0.55);
        let impacts = standing.impact_ratios(&compile(&toml).0.rules()[0]).unwrap();
        for (found, expected) in impacts.iter().zip(impact) {
            assert!(close(found.unwrap().ratio.unwrap(), expected), "{impacts:?}");
        }
        // 0.8 · 0.5 of 10 are 4, one more than are hired; 0.8 · 0.6 of 10 are 4.8.
        assert_eq!(impacts[1].unwrap().shortfall, if group == white { 1 } else { 2 });
    }
}

/// A reference without trials, or with too few, is compared with nothing.
#[test]
fn without_a_reference_nothing_is_compared() {
    let file = |race: &str, metric: &str, least: u64| {
        let group = format!("{{ column = \"race\", reference = \"{race}\" }}");
        file(&group, "String", &format!("{metric}\nmin_trials = {least}"))
    };
    for metric in [DIFFERENCE, RATIO] {
        for (race, least, races, is_compared) in [
            ("White", 10, &RACES[..], true),
            ("Green", 0, &RACES, false),
            ("White", 10, &[("Asian", 10, 6), ("Black", 10, 3), ("White", 9, 5)], false),
            // Only the reference.
            ("White", 10, &[("Asian", 9, 6), ("White", 10, 5)], true),
        ] {
            let toml = file(race, metric, least);
            let observed = ended(&toml, &people(races));
            let standing = &observed.standings[0];
            assert_eq!(standing.gap.is_some(), is_compared, "{race} {least} {races:?}");
            let reason = standing.without_reference(&compile(&toml).0.rules()[0]);
            assert_eq!(reason.is_some(), !is_compared, "{reason:?}");
            if let Some(reason) = reason {
                let why = if race == "Green" { "no trial has" } else { "too few" };
                assert!(reason.contains(why) && reason.contains(race), "{reason}");
            }
        }
    }
}

/// A reference is a value of its column's type, however it is written, and is found by both engines.
#[test]
fn a_reference_has_the_type_of_its_column() {
    for (data_type, written, others) in [
        ("UInt8", "1", ["1", "2"]),
        ("UInt64", "\"1\"", ["1", "2"]),
        ("UInt64", "9223372036854775807", ["9223372036854775807", "2"]),
        ("Int64", "-9223372036854775807", ["-9223372036854775807", "2"]),
        ("Int8", "-1", ["-1", "2"]),
        ("Int64", "0x10", ["16", "2"]),
        ("Float64", "1", ["1", "2.5"]),
        ("Float64", "-2.50", ["1", "-2.5"]),
        ("Float32", "\"0.5\"", ["0.5", "2"]),
        ("Bool", "true", ["true", "false"]),
        ("Bool", "\"false\"", ["true", "false"]),
        ("String", "1", ["1", "2"]),
        ("String", "true", ["true", "2"]),
        ("String", "\"White\"", ["White", "Black"]),
        ("String", r##"'a "quoted" \ b"#'"##, [r##"a "quoted" \ b"#"##, "Black"]),
        ("String", "'back\\'", ["back\\", "Black"]),
        ("String", "\"{}\"", ["{}", "Black"]),
        ("String", "\"\"", ["", "Black"]),
    ] {
        let group = format!("{{ column = \"race\", reference = {written} }}");
        let toml = file(&group, data_type, DIFFERENCE);
        let csv = people(&[(others[0], 4, 1), (others[1], 4, 4)]);
        let observed = ended(&toml, &csv);
        let standing = &observed.standings[0];
        // An empty text is no value of a column of CSV.
        let is_found = !others[0].is_empty();
        assert_eq!(
            standing.groups.iter().filter(|group| group.is_reference).count(),
            usize::from(is_found),
            "{toml}"
        );
        assert_eq!(standing.gap, is_found.then_some(0.75), "{toml}");
    }
}

/// Of groups that are made from a column, the reference is one of these groups.
#[test]
fn groups_that_are_made_have_a_reference() {
    let ages = [("20", 4, 4), ("30", 4, 2), ("50", 4, 1)];
    for (group, gap) in [
        ("{ column = \"race\", bins = [25, 40], reference = \"25 to under 40\" }", 0.5),
        ("{ column = \"race\", bins = [25, 40], reference = \"40 or more\" }", 0.75),
        ("{ column = \"race\", bins = [25, 40], except = \"under 25\", reference = \"40 or more\" }", 0.25),
        ("{ column = \"race\", labels = { 30 = \"thirty\" }, reference = \"thirty\" }", 0.5),
        ("{ column = \"race\", labels = { 30 = \"thirty\" }, reference = 50 }", 0.75),
        ("{ column = \"race\", except = [\"20\"], reference = 50 }", 0.25),
        ("{ column = \"race\", name = \"age\", reference = 50 }", 0.75),
    ] {
        let observed = ended(&file(group, "UInt64", DIFFERENCE), &people(&ages));
        assert_eq!(observed.standings[0].gap, Some(gap), "{group}");
    }
}

/// A combination is compared with the combination of the references of its columns; other comparisons are left alone.
#[test]
fn a_combination_has_the_references_of_its_columns() {
    let toml = file("[[\"race\"], [\"race\", \"id\"]]", "String", DIFFERENCE)
        .replace("key = \"id\"", "key = \"row\"")
        .replace("\nhorizon = \"0s\"", "")
        .replace("[trial]", "[groups]\nrace = { reference = \"White\" }\nid = { reference = 2 }\n[trial]");
    let (compiled, _) = compile(&toml);
    let references: Vec<Option<&str>> =
        compiled.rules().iter().map(|rule| rule.reference.as_deref()).collect();
    assert_eq!(references, [Some(r#"["White"]"#), Some(r#"["White",2]"#)]);
    assert!(compiled.rtlola().contains("_most(\"White\", 2)"), "{}", compiled.rtlola());
    // An upper bound compares nothing, so it needs no reference of all columns.
    let flips = "\n[[fairness]]\nmetric = \"counterfactual-fairness\"\ndecision = 'hired'\ntolerance = 0.1\nrule = \"map\"\ngroup = \"race\"\n";
    let toml = toml.replace("horizon = \"0s\"\n", "") + flips;
    let file = FairnessFile::parse(
        "f.toml",
        &toml
            .replace("key = \"row\"", "key = \"id\"")
            .replace("id = { reference = 2 }\n", "")
            .replace(", [\"race\", \"id\"]", ""),
    )
    .unwrap();
    let rules = file.compile(&[]).as_ref().map(Compiled::rules).map(<[_]>::to_vec).unwrap();
    assert_eq!((rules[0].reference.is_some(), rules[1].reference.is_some()), (true, false));
}
