use std::time::Duration;

use super::write::rounded_up;
use super::*;
use crate::FairnessFile;

/// A table whose first column is the time in seconds, if it is called `time`.
fn table(csv: &str) -> TableSample {
    let mut lines = csv.trim().lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let has_time = names[0] == "time";
    let mut columns: Vec<ColumnSample> = names.iter().map(|name| ColumnSample::new(*name, None)).collect();
    let mut times = Vec::new();
    for line in lines {
        for (sample, value) in columns.iter_mut().zip(line.split(',')) {
            sample.add(Some(value).filter(|value| !value.is_empty()));
        }
        let time = line.split(',').next().and_then(|time| time.parse::<i64>().ok());
        times.push(time.unwrap_or_default() * 1_000_000_000);
    }
    if has_time {
        columns.remove(0);
    }
    TableSample {
        columns,
        time: has_time.then(|| "time".to_owned()),
        times,
        is_sorted: true,
        ..TableSample::default()
    }
}

/// The proposed file, which must compile.
fn toml(csv: &str) -> Result<String, NoProposal> {
    let toml = Proposal::guess(table(csv))?.toml();
    let file = FairnessFile::parse("proposal.toml", &toml).unwrap_or_else(|error| panic!("{error}\n{toml}"));
    file.compile(&[]).unwrap_or_else(|error| panic!("{error}\n{toml}"));
    Ok(toml)
}

#[test]
fn a_case_is_final_after_its_longest_delay() {
    let horizon = |csv: &str| {
        let toml = toml(csv).unwrap();
        let line = toml.lines().find(|line| line.starts_with("horizon")).unwrap();
        line.split('#').next().unwrap().trim().to_owned()
    };
    assert_eq!(horizon("time,id,gender,hired\n1,1,F,true\n2,2,M,false"), "horizon = \"0s\"");
    assert_eq!(horizon("time,id,gender,accepted\n1,1,F,\n2,2,M,\n92,,,2"), "horizon = \"2m\"");
    assert_eq!(horizon("time,id,gender,hired\n1,1,F,\n2,2,M,\n90000,2,M,true"), "horizon = \"2d\"");
    for (seconds, expected) in [(0, "1s"), (3_600, "1h"), (3_601, "2h"), (731 * 86_400, "1095d")] {
        assert_eq!(rounded_up(Duration::from_secs(seconds)), expected);
    }
}

/// Key, groups, and the indicator.
fn guess(csv: &str) -> Result<String, NoProposal> {
    let toml = toml(csv)?;
    let proposal = Proposal::guess(table(csv))?;
    let lines = toml.lines().skip_while(|line| *line != "[indicators]").skip(1);
    let line = lines.into_iter().find(|line| !line.starts_with('#')).unwrap_or_default();
    Ok(format!("{} {} {line}", proposal.key.as_deref().unwrap_or("row"), proposal.groups.join("+")))
}

#[test]
fn columns_are_known_by_name_and_value() {
    for (csv, expected) in [
        (
            "time,id,gender,accepted\n1,1,F,\n2,2,M,\n3,,,2",
            "id gender accepted = { when = 'true', key = \"accepted\", favourable = true }",
        ),
        (
            "time,id,gender,department,admitted\n1,1,F,A,true\n2,2,M,B,false",
            "id gender admitted = { when = 'admitted', favourable = true }",
        ),
        (
            "time,applicant_id,race,status\n1,7,x,approved\n2,8,y,denied",
            "applicant_id race status = { when = 'status == \"approved\"', favourable = true }",
        ),
        ("time,id,group,score\n1,7,x,3\n2,8,y,9\n3,9,y,10", "id group score = 'score > 9'"),
        ("id,sex,hired\n7,x,0\n8,y,1", "id sex hired = { when = 'hired == 1', favourable = true }"),
        ("time,id,colour,x\n1,7,red,0.5\n2,8,blue,0.25\n3,9,red,1.5", "id colour x = 'x > 0.5'"),
        // A key that repeats needs times; without, each row is a case.
        ("id,sex,hired\n7,x,0\n7,y,1", "row sex hired = { when = 'hired == 1', favourable = true }"),
        // Numbers and text of many values are neither key nor group; an outcome comes before other numbers.
        (
            "fnlwgt,Sex,race,income\n77516,Male,White,<=50K\n83311,Female,Black,>50K\n9,Male,?,<=50K",
            "row Sex+race income = { when = 'income == \">50K\"', favourable = true }",
        ),
        (
            "age,sex,default-payment-next-month\n20,1,0\n30,2,1\n70,1,",
            "row sex+age default_payment_next_month = { when = '`default-payment-next-month` == 1', known = \"default_payment_next_month_known\", favourable = false }",
        ),
        ("sex,y_true,y_pred,y_pred_proba\nF,1,0,0.2\nM,0,1,0.7\nM,0,1,0.9", "row sex y_pred = 'y_pred == 1'"),
        (
            "sex,frisked_N,frisked_Y\n1,0,1\n2,1,0",
            "row sex frisked_Y = { when = 'frisked_Y == 1', favourable = false }",
        ),
    ] {
        assert_eq!(guess(csv).as_deref(), Ok(expected), "{csv}");
    }
    assert!(matches!(guess("time,id\n1,1\n2,2"), Err(NoProposal::Group(names)) if names == "`id`"));
    assert!(matches!(guess("sex,hired\nF,yes\nF,no"), Err(NoProposal::Group(_))));
    assert!(matches!(guess("time,id,gender\n1,1,F\n2,2,M"), Err(NoProposal::Decision(_))));
}

#[test]
fn values_that_stand_for_none_are_left_out_and_ages_are_in_bins() {
    let toml = toml("age,race,hired\n20,White,yes\n30,?,no\n70,Black,no").unwrap();
    assert!(toml.contains("[{ column = \"race\", except = [\"?\"] }],"), "{toml}");
    assert!(toml.contains("[{ column = \"age\", bins = [25, 40, 65] }],"), "{toml}");
}
