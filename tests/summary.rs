//! The summary of a run: what its schema says, and the numbers of an independent count.

use serde_json::Value;

use crate::cli::Folder;
use crate::support::root;

/// What a value has that its schema does not allow. Covers the keywords that the schema of summaries uses.
fn problems(schema: &Value, value: &Value, root: &Value, place: &str) -> Vec<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let definition = &root["$defs"][name.trim_start_matches("#/$defs/")];
        assert!(definition.is_object(), "{name}");
        return problems(definition, value, root, place);
    }
    let mut found = Vec::new();
    let mut wrong = |what: &str| found.push(format!("{place}: {value} {what}"));
    if !schema["const"].is_null() && schema["const"] != *value {
        wrong("is not the constant");
    }
    if schema["enum"].as_array().is_some_and(|values| !values.contains(value)) {
        wrong("is not one of the values");
    }
    let fits = match schema["type"].as_str() {
        None => true,
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("number") => value.is_number(),
        Some("integer") => value.is_u64(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        Some(other) => panic!("{other}"),
    };
    if !fits {
        wrong("has another type");
    }
    for required in schema["required"].as_array().into_iter().flatten() {
        if value.get(required.as_str().unwrap()).is_none() {
            wrong(&format!("has no {required}"));
        }
    }
    for (key, value) in value.as_object().into_iter().flatten() {
        match schema["properties"].get(key) {
            Some(schema) => found.extend(problems(schema, value, root, &format!("{place}.{key}"))),
            None if schema["additionalProperties"] == Value::Bool(false) => {
                found.push(format!("{place}: {key} is not known"));
            }
            None => {}
        }
    }
    for value in value.as_array().into_iter().flatten() {
        found.extend(problems(&schema["items"], value, root, &format!("{place}[]")));
    }
    found
}

/// With twelve digits: reading a number may change the last of them.
fn rounded(value: &Value) -> Value {
    match value {
        Value::Number(number) => Value::from(format!("{:.12e}", number.as_f64().unwrap())),
        Value::Array(values) => values.iter().map(rounded).collect(),
        Value::Object(object) => object
            .iter()
            .map(|(key, value)| (key.clone(), rounded(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

fn schema() -> Value {
    let text = std::fs::read_to_string(root().join("docs/summary.schema.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// A table in which women are hired half as often as men, a few people have no known sex, and some outcomes are missing.
fn table() -> String {
    let mut csv = "sex,hired,good\n".to_owned();
    for number in 0..2000 {
        let sex = if number % 50 == 0 { "?" } else { ["F", "M"][number % 2] };
        let hired = if sex == "M" { number % 5 < 3 } else { number % 10 < 3 };
        let good = ["1", "0", ""][number / 7 % 3];
        csv += &format!("{sex},{hired},{good}\n");
    }
    csv
}

const FILE: &str = "[events]\ntime = \"row\"\n[trial]\nkey = \"row\"\ngroup = { column = \"sex\", except = \"?\" }\n\
    [indicators]\nhired = { when = 'hired', favourable = true }\ngood = { when = 'good == 1', known = \"known\" }\nknown = 'good in [0, 1]'\n\
    [[fairness]]\nmetric = \"impact-ratio\"\ndecision = \"hired\"\n\
    [[fairness]]\nmetric = \"equal-opportunity\"\nprediction = \"hired\"\noutcome = \"good\"\ntolerance = 0.1\nrule = \"map\"\n";

#[test]
fn a_summary_has_the_numbers_of_the_run() {
    let folder = Folder::new().file("f.toml", FILE).file("d.csv", table());
    let out = folder.run("run f.toml d.csv --to summary.json --to summary.toml -q");
    assert!(out.contains("exit code 1"), "{out}");
    let json: Value = serde_json::from_str(&folder.read("summary.json")).unwrap();
    let schema = schema();
    assert_eq!(problems(&schema, &json, &schema, ""), [] as [String; 0]);
    assert_eq!((&json["verdict"], &json["rows"]["excepted"]), (&Value::from("unfair"), &Value::from(40)));

    // The same as TOML, but for the times of both.
    let toml: Value = toml::from_str(&folder.read("summary.toml")).unwrap();
    assert_eq!(rounded(&toml["metrics"]), rounded(&json["metrics"]));

    // Counted from the table.
    let rows: Vec<Vec<String>> =
        table().lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect();
    let count = |sex: &str, wanted: &dyn Fn(&[String]) -> bool| {
        rows.iter().filter(|row| row[0] == sex && wanted(row)).count() as u64
    };
    let share = |sex: &str| count(sex, &|row| row[1] == "true") as f64 / count(sex, &|_| true) as f64;
    for (index, sex) in ["F", "M"].into_iter().enumerate() {
        let group = |metric: usize| &json["metrics"][metric]["rates"][0]["strata"][0]["groups"][index];
        let decided = group(0);
        assert_eq!(decided["group"]["sex"], sex);
        assert_eq!(decided["trials"], count(sex, &|_| true));
        assert_eq!(decided["numerator"], count(sex, &|row| row[1] == "true") as f64);
        assert_eq!(decided["share"], share(sex));
        assert_eq!(decided["impact"]["ratio"], share(sex) / share("M"));
        let missing =
            0.8 * share("M") * count(sex, &|_| true) as f64 - count(sex, &|row| row[1] == "true") as f64;
        assert_eq!(decided["impact"]["shortfall"], missing.max(0.0).ceil() as u64);
        assert_eq!(decided["impact"]["is_under_four_fifths"], sex == "F");
        let good = group(1);
        assert_eq!(good["trials"], count(sex, &|row| row[2] == "1"));
        assert_eq!(good["numerator"], count(sex, &|row| row[2] == "1" && row[1] == "true") as f64);
        assert_eq!(good["unknown"], count(sex, &|row| row[2].is_empty()));
    }
    let alarm = &json["metrics"][0]["rates"][0]["strata"][0]["alarm"];
    assert_eq!(alarm["worse_off"]["sex"], "F");
    // The alarm, as a sink of verdicts has it.
    folder.run("run f.toml d.csv --to verdicts.jsonl -q");
    let verdicts = folder.read("verdicts.jsonl");
    let verdicts = verdicts.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let first = verdicts.into_iter().find(|verdict| verdict["stream"] == "impact_ratio").unwrap();
    assert_eq!(first["message"], alarm["message"]);
}

#[test]
fn a_summary_is_of_a_fairness_file() {
    let folder = Folder::new().file("d.csv", "time,id,score,name\n1,1,9.75,A\n");
    let out = folder.run("run spec.lola d.csv --to summary.json");
    assert!(out.contains("go to `jsonl:PATH`") && out.contains("exit code 2"), "{out}");
}

/// Men are hired more often than women, the reference of the first file; no row has that of the second.
#[test]
fn a_reference_is_named_wherever_a_run_is_described() {
    let file = FILE.replace("except = \"?\"", "except = \"?\", reference = \"F\"");
    let folder = Folder::new()
        .file("f.toml", &file)
        .file("other.toml", file.replace("reference = \"F\"", "reference = \"female\""))
        .file("d.csv", table());
    let out = folder.run(
        "run f.toml d.csv --to summary.json --to verdicts.jsonl --to report.html --to console --evidence e.parquet -q",
    );
    assert!(out.contains("exit code 1") && out.contains("  reference\n"), "{out}");
    let json: Value = serde_json::from_str(&folder.read("summary.json")).unwrap();
    let schema = schema();
    assert_eq!(problems(&schema, &json, &schema, ""), [] as [String; 0]);
    let metric = &json["metrics"][0];
    assert_eq!(metric["reference"], serde_json::json!({"sex": "F"}));
    let groups = &metric["rates"][0]["strata"][0]["groups"];
    let number = |value: &Value| value.as_f64().unwrap();
    let ratio = number(&groups[1]["share"]) / number(&groups[0]["share"]);
    assert!((number(&groups[1]["impact"]["ratio"]) - ratio).abs() < 1e-12 && ratio > 1.5, "{ratio}");
    assert_eq!(groups[0]["impact"]["ratio"], 1.0);
    let report = folder.read("report.html");
    assert!(report.contains("<td>reference</td>") && report.contains("Compared with F"), "{report}");
    let folder = folder.file("loose.toml", file.replace("tolerance = 0.1", "tolerance = 0.9"));
    folder.run("run loose.toml d.csv --to loose.html -q");
    let report = folder.read("loose.html");
    assert!(report.contains("percentage points above the reference F"), "{report}");

    // An alarm of the guarantee, recomputed from its evidence.
    let explained = folder.run("explain verdicts.jsonl e.parquet --alarm 2");
    assert!(explained.contains("compared with F") && explained.contains("F, the reference"), "{explained}");
    assert!(explained.contains("has the same message, to the last digit"), "{explained}");

    // Without any trial of the reference there is no alarm, and the reason is said before a run and after it.
    let checked = folder.run("check other.toml d.csv");
    let words: String = checked.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("warning: the reference `female` is not among the first groups of `sex`"),
        "{checked}"
    );
    assert!(!folder.run("check f.toml d.csv").contains("is not among"), "{checked}");
    let out = folder.run("run other.toml d.csv --to none.html --to console -q");
    assert!(out.contains("no trial has the reference female: nothing is compared"), "{out}");
    assert!(out.contains("exit code 0"), "{out}");
    assert!(folder.read("none.html").contains("No trial has the reference female"));
}

#[test]
fn a_window_is_named_wherever_a_run_is_described() {
    let file = "[trial]\nkey = \"id\"\ngroup = \"sex\"\nhorizon = \"0s\"\n[indicators]\nhired = \"hired == 1\"\n\
                [[fairness]]\nmetric = \"demographic-parity\"\ndecision = \"hired\"\ntolerance = 0.1\nwindow = \"30d\"\n";
    // Women are hired less often from day 60 on, for 30 days. Two trials an hour.
    let mut table = String::from("time,id,sex,hired\n");
    for hour in 0..2880 {
        let hired = if (1440..2160).contains(&hour) { hour % 5 == 0 } else { hour % 2 == 0 };
        for (id, sex, hired) in [(2 * hour, "M", hour % 2 == 0), (2 * hour + 1, "F", hired)] {
            table += &format!("{},{id},{sex},{}\n", 1_767_225_600 + hour * 3600, u8::from(hired));
        }
    }
    let folder = Folder::new()
        .file("map.toml", format!("{file}rule = \"map\"\nmin_trials = 30\n"))
        .file("detector.toml", format!("{file}guarantee = {{ false_alarm_every = 100000 }}\n"))
        .file("d.csv", table);
    for name in ["map", "detector"] {
        let out = folder.run(&format!(
            "run {name}.toml d.csv --to {name}.json --to {name}.jsonl --to {name}.html --to console --evidence {name}.parquet -q"
        ));
        assert!(
            out.contains("exit code 1") && out.contains("Of the trials counted in the last 30 days"),
            "{out}"
        );
        // A trial leaves at the end of a step of 7.2 hours, so that there are 720 to 728 of each.
        let json: Value = serde_json::from_str(&folder.read(&format!("{name}.json"))).unwrap();
        let schema = schema();
        assert_eq!(problems(&schema, &json, &schema, ""), [] as [String; 0]);
        assert_eq!(json["metrics"][0]["window_seconds"], 2_592_000.0);
        let stratum = &json["metrics"][0]["rates"][0]["strata"][0];
        let trials = stratum["groups"][0]["trials"].as_u64().unwrap();
        assert!((720..=728).contains(&trials), "{trials}");
        // Intervals would be of all trials.
        assert!(stratum["gap_interval"].is_null() && stratum["groups"][0]["interval"].is_null(), "{stratum}");
        assert!(folder.read(&format!("{name}.html")).contains("in the last 30 days"));
        let explained = folder.run(&format!("explain {name}.jsonl {name}.parquet --alarm 1"));
        assert!(explained.contains("has the same message, to the last digit"), "{explained}");
    }
    let out = folder.run("run map.toml d.csv -q");
    assert!(
        out.contains("ALARM  demographic parity: in the last 30 days, ") && out.contains("  clear  "),
        "{out}"
    );
    // The trials behind an alarm are those that its message counts.
    let explained = folder.run("explain map.jsonl map.parquet --alarm 1 --trials csv:-");
    let message = &out[out.find("in the last").unwrap()..];
    let counted = |message: &str| -> usize {
        message
            .split(" of ")
            .skip(1)
            .take(2)
            .map(|part| part.split(')').next().unwrap().parse::<usize>().unwrap())
            .sum()
    };
    assert_eq!(explained.matches(",trial,").count(), counted(message), "{message}");
}

/// A schema that allows everything would hold for everything.
#[test]
fn the_schema_refuses_what_it_does_not_name() {
    let schema = schema();
    let wrong: Value =
        serde_json::from_str(r#"{"fairstream_summary": 2, "verdict": "fair", "more": 1}"#).unwrap();
    let found = problems(&schema, &wrong, &schema, "");
    for expected in
        ["is not the constant", "is not one of the values", "more is not known", "has no \"metrics\""]
    {
        assert!(found.iter().any(|problem| problem.contains(expected)), "{expected}: {found:?}");
    }
}
