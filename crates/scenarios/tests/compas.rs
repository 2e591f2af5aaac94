//! ProPublica's file becomes events, with any selection of columns; invalid values are named.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::path::Path;

use fairstream_core::compliance::{SourceCase, check_source};
use fairstream_core::{ColumnValues, SourceFactory, SourceRequest, StopToken, TimeFormat};
use fairstream_scenarios::{Compas, Scenario, scenarios};

fn scenario() -> Scenario {
    scenarios().into_iter().find(|scenario| scenario.adapter().name == "compas").unwrap()
}

fn request() -> SourceRequest {
    SourceRequest { wanted: scenario().columns(), ..SourceRequest::default() }
}

/// The events as the lines of a CSV file without a header.
fn lines(compas: Compas) -> Vec<String> {
    let mut source = compas.source(&request()).unwrap();
    let mut lines = Vec::new();
    while let Some(batch) = source.next_batch().unwrap() {
        let columns: Vec<ColumnValues> =
            batch.rows.columns().iter().map(|column| ColumnValues::of(column).unwrap()).collect();
        lines.extend((0..batch.len()).map(|row| {
            let mut line = batch.time(row).written(&TimeFormat::Date).to_string();
            for column in &columns {
                line += ",";
                line += &column.at(row).map_or(String::new(), |value| value.to_string());
            }
            line
        }));
    }
    lines
}

const HEADER: &str = "id,compas_screening_date,sex,age_cat,race,decile_score,is_recid,r_offense_date\n";

fn read(text: &str) -> Result<Compas, String> {
    Compas::read("scores.csv", text.as_bytes(), "race").map_err(|error| error.to_string())
}

#[test]
fn people_become_screenings_and_offences_in_order_of_time() {
    let people = "\
        3,2013-05-02,Male,25 - 45,Other,7,1,2013-06-01\n\
        1,2013-06-01,Female,25 - 45,Caucasian,1,0,\n\
        2,2013-05-02,Male,25 - 45,Hispanic,10,1,2013-05-02\n";
    let compas = read(&format!("{HEADER}{people}")).unwrap();
    assert_eq!(compas.left_out().total(), 0);
    assert_eq!(
        lines(compas),
        [
            "2013-05-02,SCREEN,3,Other,7",
            "2013-05-02,SCREEN,2,Hispanic,10",
            "2013-05-02,RECIDIVISM,2,,",
            "2013-06-01,SCREEN,1,Caucasian,1",
            "2013-06-01,RECIDIVISM,3,,",
        ]
    );
}

#[test]
fn rows_without_score_or_outcome_are_counted_by_reason() {
    let people = "\
        1,2013-05-02,Male,25 - 45,Other,-1,-1,\n\
        2,2013-05-02,Male,25 - 45,Other,-1,0,\n\
        3,2013-05-02,Male,25 - 45,Other,,0,\n\
        4,2013-05-02,Male,25 - 45,Other,5,-1,\n\
        5,2013-05-02,Male,25 - 45,Other,5,,\n\
        6,2013-05-02,Male,25 - 45,Other,5,1,\n\
        7,,Male,25 - 45,Other,5,0,\n\
        8,2013-05-02,Male,25 - 45,Other,5,1,2013-05-01\n\
        9,2013-05-02,Male,25 - 45,,5,0,\n\
        10,2013-05-02,Male,25 - 45,Other,5,0,\n";
    let compas = read(&format!("{HEADER}{people}")).unwrap();
    let counts: Vec<(&str, u64)> = compas.left_out().by_reason().collect();
    assert_eq!(
        counts,
        [
            ("whose offence has no date", 1),
            ("whose offence is dated before the screening", 1),
            ("without a date of screening", 1),
            ("without a group", 1),
            ("without a known outcome", 2),
            ("without a score", 3),
        ]
    );
    assert_eq!(lines(compas), ["2013-05-02,SCREEN,10,Other,5"]);
}

/// As many columns as the published file has, including duplicate names.
const ALL_COLUMNS: &str = "id,name,first,last,compas_screening_date,sex,dob,age,age_cat,race,juv_fel_count,\
    decile_score,juv_misd_count,juv_other_count,priors_count,days_b_screening_arrest,c_jail_in,c_jail_out,\
    c_case_number,c_offense_date,c_arrest_date,c_days_from_compas,c_charge_degree,c_charge_desc,is_recid,\
    num_r_cases,r_case_number,r_charge_degree,r_days_from_arrest,r_offense_date,r_charge_desc,r_jail_in,\
    r_jail_out,is_violent_recid,num_vr_cases,vr_case_number,vr_charge_degree,vr_offense_date,vr_charge_desc,\
    v_type_of_assessment,v_decile_score,v_score_text,v_screening_date,type_of_assessment,decile_score,\
    score_text,priors_count";

#[test]
fn all_columns_are_as_good_as_some_and_of_two_the_first_counts() {
    let names: Vec<&str> = ALL_COLUMNS.split(',').collect();
    assert_eq!(names.len(), 47);
    let mut fields = vec!["\"a, \"\"quoted\"\"\ntext\""; 47];
    for (name, value) in [
        ("id", "17"),
        ("compas_screening_date", "2013-05-02"),
        ("race", "Other"),
        ("decile_score", "3"),
        ("is_recid", "1"),
        ("r_offense_date", "2014-01-31"),
    ] {
        fields[names.iter().position(|known| *known == name).unwrap()] = value;
    }
    fields[44] = "9";
    let text = format!("{ALL_COLUMNS}\r\n{}\r\n", fields.join(","));
    for mark in ["", "\u{feff}"] {
        let compas = read(&format!("{mark}{text}")).unwrap();
        assert_eq!(lines(compas), ["2013-05-02,SCREEN,17,Other,3", "2014-01-31,RECIDIVISM,17,,"]);
    }
}

#[test]
fn errors_name_row_column_and_reason() {
    let good = "1,2013-05-02,Male,25 - 45,Other,5,0,\n";
    let row = |text: &str| read(&format!("{HEADER}{good}{text}\n")).unwrap_err();
    for (text, expected) in [
        ("x,2013-05-02,,,Other,5,0,", "row 3, column `id`: `x` is not a whole number"),
        (",2013-05-02,,,Other,5,0,", "row 3, column `id`: there is no id"),
        ("1,2013-05-02,,,Other,high,0,", "row 3, column `decile_score`: `high` is not a whole number"),
        ("1,2013-05-02,,,Other,11,0,", "row 3, column `decile_score`: `11` is not a score from 1 to 10"),
        ("1,2013-05-02,,,Other,5,2,", "row 3, column `is_recid`: `2` is not 0, 1 or -1"),
        (
            "1,2013-05-02,,,Other,5,0,2014-01-01",
            "row 3, column `r_offense_date`: there is a date of an offence, but is_recid is 0",
        ),
        (
            "1,05/02/2013,,,Other,5,0,",
            "row 3, column `compas_screening_date`: `05/02/2013` is not a date such as 2026-11-16 between the years 1677 and 2262",
        ),
        ("1,2013-05-02,Other", "row 3: it has 3 fields, but there are 8 column names"),
    ] {
        assert_eq!(row(text), format!("scores.csv: {expected}"));
    }
    let wrong = read("ID,race\n").unwrap_err();
    assert_eq!(
        wrong,
        "cannot open scores.csv: it has no columns `id` (did you mean `ID`?), `compas_screening_date`, `decile_score`, `is_recid` (did you mean `ID`?), `r_offense_date`"
    );
    assert!(read("").unwrap_err().starts_with("cannot open scores.csv: it has no columns `id`"));
    let no_group = Compas::read("scores.csv", HEADER.as_bytes(), "rase").unwrap_err().to_string();
    assert_eq!(no_group, "cannot open scores.csv: it has no column `rase` (did you mean `race`?)");
}

#[test]
fn source_complies() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("scores.csv");
    let people: String = (1..7).map(|id| format!("{id},2013-05-0{id},,,Other,5,1,2013-06-0{id}\n")).collect();
    std::fs::write(&path, format!("{HEADER}{people}")).unwrap();
    let at = |path: &Path| SourceRequest { location: path.to_str().unwrap().to_owned(), ..request() };
    check_source(&SourceCase {
        factory: &scenario(),
        good: at(&path),
        rows: 12,
        bad: None,
        missing: at(&dir.path().join("missing.csv")),
        cut_off: None,
        live: None,
    });
}

/// The published file, if it exists: the value of `FAIRSTREAM_COMPAS`, or beside the checkout.
#[test]
fn the_published_file_comes_out_as_an_independent_count_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = std::env::var_os("FAIRSTREAM_COMPAS")
        .map_or_else(|| root.join("../shared/data/compas-scores.csv"), |path| root.join(path));
    if !path.is_file() {
        eprintln!("SKIPPED: there is no {} (set FAIRSTREAM_COMPAS)", path.display());
        return;
    }
    let compas = Compas::open(path.to_str().unwrap(), "race", &StopToken::default()).unwrap();
    let left_out: BTreeMap<&str, u64> = compas.left_out().by_reason().collect();
    let expected = [("without a known outcome", 715), ("without a score", 15)].into();
    assert_eq!(left_out, expected);

    // A simple parser: a line is a person, and fields are separated by commas, as no field has quotes.
    let text = std::fs::read_to_string(&path).unwrap();
    let names: Vec<&str> = text.lines().next().unwrap().split(',').collect();
    let events = lines(compas);
    assert!(events.is_sorted_by_key(|line| line[..10].to_owned()));
    if text.contains('"') {
        assert_eq!(events.len(), 14_728);
        return;
    }
    let at = |name: &str| names.iter().position(|known| *known == name).unwrap();
    let mut by_hand: Vec<String> = Vec::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let (id, score) = (fields[at("id")], fields[at("decile_score")]);
        if score != "-1" && fields[at("is_recid")] != "-1" {
            by_hand.push(format!(
                "{},SCREEN,{id},{},{score}",
                fields[at("compas_screening_date")],
                fields[at("race")]
            ));
            if !fields[at("r_offense_date")].is_empty() {
                by_hand.push(format!("{},RECIDIVISM,{id},,", fields[at("r_offense_date")]));
            }
        }
    }
    let mut events = events;
    events.sort();
    by_hand.sort();
    assert_eq!(events.len(), 14_728);
    assert!(events == by_hand);
}
