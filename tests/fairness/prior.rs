//! Priors that are computed from columns and counts while a file runs: every estimate, gap and alarm, compared with
//! numbers that were worked out by hand, and with a calculation without streams.

use std::collections::BTreeMap;
use std::fmt::Write;

use fairstream_core::{Selection, Time};
use proptest::prelude::*;
use proptest::sample::select;

use super::run::{Observed, observe};
use crate::support::{ENGINES, compiled};

const PLACES_PER_APPLICANT: &str = "places.hold(or: 1.0) / applicants.hold(or: 2.0)";

fn file(prior: &str, confidence: f64, min_trials: u64, tolerance: f64, clear: f64) -> String {
    format!(
        "[events.columns]\nid = \"UInt64\"\ngender = \"String\"\naccepted = \"UInt64\"\nplaces = \"Float64\"\n\
         applicants = \"Float64\"\n[trial]\nkey = \"id\"\ngroup = \"gender\"\n[indicators]\n\
         accepted = {{ when = \"true\", key = \"accepted\" }}\n[[fairness]]\nmetric = \"demographic-parity\"\n\
         decision = \"accepted\"\ntolerance = {tolerance:?}\nclear = {clear:?}\nmin_trials = {min_trials}\n\
         rule = \"map\"\nconfidence = {confidence:?}\nprior = '{prior}'\n"
    )
}

const UNTIL: Time = Time(1_000_000_000_000);

/// The values of a stream without instances, or of one of a group.
fn values(observed: &Observed, stream: &str, instance: &str) -> Vec<(i64, f64)> {
    observed.values.get(stream).and_then(|series| series.get(instance)).cloned().unwrap_or_default()
}

fn is_close(one: &[(i64, f64)], other: &[(i64, f64)]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| one.0 == other.0 && (one.1 - other.1).abs() <= 1e-12)
}

/// With κ = 4, so that an estimate is (accepted + 4 γ) / (trials + 4).
const ROWS: &str = "\
time,id,gender,accepted,places,applicants
1,1,M,,,
2,,,,3,4
3,2,F,,,
4,3,F,,2,
5,,,1,,
6,,,,,8
7,,,2,,
8,,,,0,
9,,,,8,
10,4,M,,4,
";

#[test]
fn places_per_applicant_by_hand() {
    let toml = file(PLACES_PER_APPLICANT, 4.0, 0, 0.1, 0.05);
    // places / applicants
    let prior = [
        (1, 1.0 / 2.0), // neither is known yet
        (2, 3.0 / 4.0),
        (3, 3.0 / 4.0),
        (4, 2.0 / 4.0), // changes in the row of an application
        (5, 2.0 / 4.0),
        (6, 2.0 / 8.0),
        (7, 2.0 / 8.0),
        (8, 0.0 / 8.0),
        (9, 8.0 / 8.0),
        (10, 4.0 / 8.0),
    ];
    let men = [
        (1, 2.0 / 5.0), // 0 of 1:  (0 + 4 · 1/2) / 5
        (2, 3.0 / 5.0), //          (0 + 4 · 3/4) / 5
        (3, 3.0 / 5.0),
        (4, 2.0 / 5.0),  //          (0 + 4 · 1/2) / 5
        (5, 3.0 / 5.0),  // 1 of 1:  (1 + 4 · 1/2) / 5
        (6, 2.0 / 5.0),  //          (1 + 4 · 1/4) / 5
        (7, 2.0 / 5.0),  //
        (8, 1.0 / 5.0),  //          (1 + 0) / 5
        (9, 5.0 / 5.0),  //          (1 + 4) / 5
        (10, 3.0 / 6.0), // 1 of 2:  (1 + 4 · 1/2) / 6
    ];
    let women = [
        (3, 3.0 / 5.0),  // 0 of 1:  (0 + 4 · 3/4) / 5
        (4, 2.0 / 6.0),  // 0 of 2:  (0 + 4 · 1/2) / 6
        (5, 2.0 / 6.0),  //
        (6, 1.0 / 6.0),  //          (0 + 4 · 1/4) / 6
        (7, 2.0 / 6.0),  // 1 of 2:  (1 + 4 · 1/4) / 6
        (8, 1.0 / 6.0),  //          (1 + 0) / 6
        (9, 5.0 / 6.0),  //          (1 + 4) / 6
        (10, 3.0 / 6.0), //          (1 + 4 · 1/2) / 6
    ];
    let gap = [
        (1, 0.0),
        (2, 0.0),
        (3, 0.0),
        (4, 1.0 / 15.0), //  6/15 - 5/15
        (5, 4.0 / 15.0), //  9/15 - 5/15: an alarm
        (6, 7.0 / 30.0), // 12/30 - 5/30
        (7, 1.0 / 15.0), //  6/15 - 5/15: no more than 0.1, but more than 0.05
        (8, 1.0 / 30.0), //  6/30 - 5/30: cleared
        (9, 1.0 / 6.0),  //  6/6 - 5/6: an alarm, although nothing has changed but the prior
        (10, 0.0),
    ];
    for (engine, build) in ENGINES {
        for max_rows in [1, 3, 8192] {
            let observed = observe(&toml, ROWS, UNTIL, build, max_rows, Selection::Changes);
            for (stream, instance, expected) in [
                ("demographic_parity_prior", r#"["M"]"#, &prior[..]),
                ("demographic_parity_prior", r#"["F"]"#, &prior[2..]),
                ("demographic_parity_estimate", r#"["M"]"#, &men[..]),
                ("demographic_parity_estimate", r#"["F"]"#, &women[..]),
                ("demographic_parity_gap", "", &gap[..]),
            ] {
                let found = values(&observed, stream, instance);
                assert!(is_close(&found, expected), "{engine}: {stream} {instance} {found:?}");
            }
            let found: Vec<&str> = observed.triggers[0].iter().map(|trigger| trigger.trim()).collect();
            assert_eq!(found, ["5", "6", "9"], "{engine}");
            let found: Vec<&str> = observed.alarms[0].iter().map(|alarm| alarm.trim()).collect();
            assert_eq!(found, ["5 raised", "8 cleared", "9 raised", "10 cleared"], "{engine}");
            let found: Vec<&str> = observed.messages.iter().map(|(_, _, text)| text.as_str()).collect();
            assert_eq!(
                found,
                [
                    "demographic parity: M 1.000 (1 of 1) and F 0.000 (0 of 2), estimated at 0.600 and 0.333, \
                     differ by 0.267, more than 0.1",
                    "demographic parity: M 1.000 (1 of 1) and F 0.500 (1 of 2), estimated at 1.000 and 0.833, \
                     differ by 0.167, more than 0.1",
                ],
                "{engine}"
            );
        }
    }
}

/// A row: an application, an acceptance of an earlier applicant, or neither; and new numbers of places and applicants.
#[derive(Clone, Debug)]
struct Step {
    applies: Option<&'static str>,
    accepted: Option<usize>,
    places: Option<u8>,
    applicants: Option<u8>,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let applies = prop_oneof![2 => select(vec!["M", "F", "X"]).prop_map(Some), 3 => Just(None)];
    // Also of applicants who have not applied yet, and of some twice.
    let accepted = prop_oneof![1 => (1_usize..14).prop_map(Some), 1 => Just(None)];
    let number = || prop_oneof![1 => (1_u8..10).prop_map(Some), 3 => Just(None)];
    let step = (applies, accepted, number(), number());
    let step = step.prop_map(|(applies, accepted, places, applicants)| Step {
        applies,
        accepted,
        places,
        applicants,
    });
    prop::collection::vec(step, 1..40)
}

/// What a prior is computed from.
#[derive(Clone, Copy, Debug)]
enum PriorOf {
    /// Columns: the last places and the last applicants that were named.
    Columns,
    /// Counts of the compiled text.
    Counts,
    /// Places from a column, applicants counted.
    Both,
}

impl PriorOf {
    fn expression(self) -> &'static str {
        match self {
            PriorOf::Columns => PLACES_PER_APPLICANT,
            PriorOf::Counts => {
                "cast<UInt64, Float64>(n_accepted.aggregate(over_instances: all, using: sum) + 1) \
                 / cast<UInt64, Float64>(n_trials.aggregate(over_instances: all, using: sum) + 2)"
            }
            PriorOf::Both => {
                "places.hold(or: 1.0) / (cast<UInt64, Float64>(n_trials.aggregate(over_instances: all, \
                 using: sum)) + places.hold(or: 1.0))"
            }
        }
    }
}

/// All values, and the times and words of alarms.
#[derive(Debug, Default, PartialEq)]
struct Expected {
    estimates: BTreeMap<String, Vec<(i64, f64)>>,
    gaps: Vec<(i64, f64)>,
    triggers: Vec<String>,
    alarms: Vec<String>,
}

/// No quotient of small whole numbers, so that rounding decides nothing.
const TOLERANCE: f64 = 0.091_713;
const CLEAR: f64 = 0.043_117;

/// Row by row, from the people themselves: their groups, and who has been accepted.
fn expected(steps: &[Step], prior: PriorOf, kappa: f64, min_trials: u64) -> Expected {
    let mut people: Vec<(&str, bool)> = Vec::new();
    let (mut places, mut applicants) = (1.0, 2.0);
    let mut all = Expected::default();
    let mut is_raised = false;
    for (time, step) in (1..).zip(steps) {
        places = step.places.map_or(places, f64::from);
        applicants = step.applicants.map_or(applicants, f64::from);
        people.extend(step.applies.map(|group| (group, false)));
        // In a row that is an application and an acceptance, the applicant is already there.
        if let Some(person) = step.accepted.and_then(|id| people.get_mut(id - 1)) {
            person.1 = true;
        }
        let count = people.len() as f64;
        let gamma = match prior {
            PriorOf::Columns => places / applicants,
            PriorOf::Counts => {
                (people.iter().filter(|(_, accepted)| *accepted).count() as f64 + 1.0) / (count + 2.0)
            }
            PriorOf::Both => places / (count + places),
        };
        let mut compared: Vec<f64> = Vec::new();
        for group in ["F", "M", "X"] {
            let of_group = || people.iter().filter(|(of, _)| *of == group);
            let (trials, accepted) = (of_group().count(), of_group().filter(|(_, yes)| *yes).count());
            if trials == 0 {
                continue;
            }
            let estimate = (accepted as f64 + gamma * kappa) / (trials as f64 + kappa);
            all.estimates.entry(format!("[\"{group}\"]")).or_default().push((time, estimate));
            if trials as u64 >= min_trials {
                compared.push(estimate);
            }
        }
        compared.sort_by(f64::total_cmp);
        let gap = compared.last().zip(compared.first()).map_or(0.0, |(most, least)| most - least);
        all.gaps.push((time, gap));
        if gap > TOLERANCE {
            all.triggers.push(format!("{time}"));
        }
        if !is_raised && gap > TOLERANCE {
            is_raised = true;
            all.alarms.push(format!("{time} raised"));
        } else if is_raised && gap <= CLEAR {
            is_raised = false;
            all.alarms.push(format!("{time} cleared"));
        }
    }
    all
}

fn csv(steps: &[Step]) -> String {
    fn shown<T: ToString>(value: Option<T>) -> String {
        value.as_ref().map(ToString::to_string).unwrap_or_default()
    }
    let mut text = String::from("time,id,gender,accepted,places,applicants\n");
    let mut last_id = 0;
    for (time, Step { applies, accepted, places, applicants }) in (1..).zip(steps) {
        last_id += usize::from(applies.is_some());
        let id = applies.map(|_| last_id);
        let fields = [shown(id), shown(*applies), shown(*accepted), shown(*places), shown(*applicants)];
        writeln!(text, "{time},{}", fields.join(",")).unwrap();
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_prior_is_computed_at_every_check(
        steps in steps(),
        prior in select(vec![PriorOf::Columns, PriorOf::Counts, PriorOf::Both]),
        kappa in select(vec![0.5, 3.0, 24.0]),
        min_trials in 0_u64..3,
    ) {
        let toml = file(prior.expression(), kappa, min_trials, TOLERANCE, CLEAR);
        let (csv, expected) = (csv(&steps), expected(&steps, prior, kappa, min_trials));
        let trimmed = |lines: &[String]| -> Vec<String> {
            lines.iter().map(|line| line.trim().to_owned()).collect()
        };
        for (engine, build) in ENGINES {
            let observed = observe(&toml, &csv, UNTIL, build, 8192, Selection::Changes);
            for group in ["[\"F\"]", "[\"M\"]", "[\"X\"]"] {
                let found = values(&observed, "demographic_parity_estimate", group);
                let wanted = expected.estimates.get(group).cloned().unwrap_or_default();
                prop_assert!(is_close(&found, &wanted), "{}: {} {:?}\n{:?}\n{}", engine, group, found, wanted, csv);
            }
            let found = values(&observed, "demographic_parity_gap", "");
            prop_assert!(is_close(&found, &expected.gaps), "{}: {:?}\n{:?}\n{}", engine, found, expected.gaps, csv);
            prop_assert_eq!(trimmed(&observed.triggers[0]), &expected.triggers[..], "{}\n{}", engine, csv);
            prop_assert_eq!(trimmed(&observed.alarms[0]), &expected.alarms[..], "{}\n{}", engine, csv);
            // The estimates that are shown at the end.
            for group in observed.standings.iter().flat_map(|standing| &standing.groups) {
                let last = expected.estimates.get(&group.values).and_then(|values| values.last());
                let is_same = group.estimate.zip(last).is_some_and(|(one, (_, last))| (one - last).abs() <= 1e-12);
                prop_assert!(is_same, "{}: {:?} {:?}\n{}", engine, group, last, csv);
            }
        }
        // With only alarms wanted the prior is still followed.
        let observed = observe(&toml, &csv, UNTIL, compiled, 7, Selection::Alarms);
        prop_assert_eq!(trimmed(&observed.alarms[0]), expected.alarms, "{}", csv);
    }
}
