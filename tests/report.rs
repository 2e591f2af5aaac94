//! The content of reports matches the run, for any data.

use std::collections::BTreeMap;

use crate::cli::Folder;
use crate::support::root;

pub(crate) const FILE: &str = r#"
[events.columns]
id = "UInt64"
group = "String"
accepted = "UInt64"
[trial]
key = "id"
group = "group"
[indicators]
accepted = { when = "true", key = "accepted" }
[[fairness]]
metric = "demographic-parity"
decision = "accepted"
tolerance = 0.1
rule = "map"
prior = 0.5
confidence = 24
"#;

/// Applications of `people` people, cycling through these groups; every `n`-th of a group is accepted.
pub(crate) fn events(people: u64, groups: &[(&str, u64)]) -> (String, BTreeMap<String, (u64, u64)>) {
    let mut text = "time,id,group,accepted\n".to_owned();
    let mut counts: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut time = 0;
    for id in 0..people {
        let (group, every) = groups[id as usize % groups.len()];
        let (applied, accepted) = counts.entry(group.to_owned()).or_default();
        *applied += 1;
        time += 10;
        text += &format!("{time},{id},{group},\n");
        if applied.is_multiple_of(every) {
            *accepted += 1;
            time += 10;
            text += &format!("{time},,,{id}\n");
        }
    }
    (text, counts)
}

pub(crate) fn report(data: &str) -> (String, String) {
    let folder = Folder::new().file("fairness.toml", FILE).file("events.csv", data);
    let printed = folder.run("report fairness.toml events.csv -q");
    (folder.read("report.html"), printed)
}

#[test]
fn numbers_on_the_page_are_those_of_the_events() {
    let (data, counts) = events(300, &[("F & co", 5), ("M", 2)]);
    let (html, printed) = report(&data);
    assert!(printed.ends_with("exit code 1\n"), "{printed}");
    assert!(html.contains("<h2>Verdict: unfair</h2>"), "{html}");
    for (group, (applied, accepted)) in &counts {
        let estimate = (*accepted as f64 + 12.0) / (*applied as f64 + 24.0);
        let name = group.replace('&', "&amp;");
        let share = *accepted as f64 / *applied as f64;
        let row = format!(
            "<tr><th scope=\"row\">{name}</th><td>{share:.3}</td><td>{estimate:.3}</td><td>{accepted}</td><td>{applied}</td></tr>"
        );
        assert!(html.contains(&row), "no {row} in {html}");
    }
    let rate = |group: &str| {
        let (applied, accepted) = counts[group];
        (accepted as f64 / applied as f64, format!("({accepted} of {applied})"))
    };
    let ((high, of_high), (low, of_low)) = (rate("M"), rate("F & co"));
    let apart = (high - low) * 100.0;
    let sentence = format!(
        "F &amp; co {low:.3} {of_low} is {apart:.1} percentage points below M {high:.3} {of_high}; 10 are allowed."
    );
    assert!(html.contains(&sentence), "{html}");
    // The specification, and the command to repeat the run.
    assert!(html.contains("confidence = 24") && html.contains("fairstream report fairness.toml events.csv"));
}

#[test]
fn a_page_comes_of_any_number_of_groups_and_events() {
    let names: Vec<String> = (0..40).map(|number| format!("group {number:02}")).collect();
    let many: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 3)).collect();
    let (html, _) = report(&events(4000, &many).0);
    assert_eq!(html.matches("<th scope=\"row\">group ").count(), 40);
    assert!(html.contains("34 others"), "lines of six groups, and of the others together");

    let (html, printed) = report(&events(20, &[("F", 3), ("M", 3)]).0);
    assert!(printed.ends_with("exit code 0\n"), "{printed}");
    // Without a guarantee, the page makes no claim that the system is fair.
    assert!(html.contains("<h2>Verdict: no alarm</h2>") && !html.contains("<h3>Alarms</h3>"), "{html}");
    let (html, _) = report("time,id,group,accepted\n7,1,F,\n");
    assert!(html.contains("Verdict: not enough evidence yet") && !html.contains("<svg"), "{html}");

    let (html, _) = report("time,id,group,accepted\n");
    assert!(html.contains("No trial has been counted."), "{html}");
    assert!(html.contains("Verdict: not enough evidence yet"), "{html}");

    // The figure of a long run has few points, and shows all alarms.
    let (html, _) = report(&events(30_000, &[("F", 5), ("M", 2)]).0);
    assert!(html.len() < 400_000, "{} bytes", html.len());
}

#[test]
fn a_report_is_of_a_fairness_file() {
    let folder =
        Folder::new().file("spec.lola", "input a: Int64\ntrigger a > 1\n").file("e.csv", "time,a\n1,2\n");
    let printed = folder.run("run spec.lola e.csv --to page.html -q");
    assert!(printed.ends_with("exit code 2\n") && printed.contains("a report is about groups"), "{printed}");
    let folder = Folder::new().file("fairness.toml", FILE).file("e.csv", "time,id,group,accepted\n");
    let printed = folder.run("report fairness.toml e.csv --to nowhere/page.html -q");
    assert!(printed.ends_with("exit code 2\n") && printed.contains("nowhere/page.html"), "{printed}");
}

/// The same events give the same bytes of the figure, from every format; and the figure matches its snapshot.
#[test]
fn figures_are_the_same_every_time() {
    let (data, _) = events(24, &[("F", 4), ("M", 2)]);
    let json: String = data
        .lines()
        .skip(1)
        .map(|row| {
            let fields: Vec<&str> = row.split(',').collect();
            let text = |name: &str, value: &str| match value {
                "" => String::new(),
                _ => format!(
                    ", \"{name}\": {}",
                    if name == "group" { format!("{value:?}") } else { value.to_owned() }
                ),
            };
            let [id, group, accepted] =
                [("id", 1), ("group", 2), ("accepted", 3)].map(|(name, at)| text(name, fields[at]));
            format!("{{\"time\": {}{id}{group}{accepted}}}\n", fields[0])
        })
        .collect();
    let folder = Folder::new().file("fairness.toml", FILE).file("e.csv", &data).file("e.jsonl", json);
    for (input, figure) in [("e.csv", "one.svg"), ("e.csv", "two.svg"), ("e.jsonl", "three.svg")] {
        folder.run(&format!("run fairness.toml {input} --to {figure} -q"));
    }
    let figure = folder.read("one.svg");
    assert_eq!(figure, folder.read("two.svg"));
    assert_eq!(figure, folder.read("three.svg"));
    insta::assert_snapshot!("figure", figure);

    // Several rates and strata are one below the other, each with its own ids.
    let strata = FILE.replace("decision = \"accepted\"", "decision = \"accepted\"\nstrata = \"where\"");
    let strata = strata.replace("group = \"String\"", "group = \"String\"\nwhere = \"String\"");
    let rows =
        data.lines().skip(1).enumerate().map(|(row, line)| format!("{line},{}\n", ["N", "S"][row % 2]));
    let data = format!("time,id,group,accepted,where\n{}", rows.collect::<String>());
    let folder = Folder::new().file("fairness.toml", strata).file("e.csv", data);
    folder.run("run fairness.toml e.csv --to figures.svg -q");
    insta::assert_snapshot!("figures", folder.read("figures.svg"));
}

/// An alarm is shaded where it was raised, and the band is as high as the tolerance.
#[test]
fn a_figure_shows_alarms_and_the_tolerance_where_they_are() {
    let folder =
        Folder::new().file("fairness.toml", FILE).file("events.csv", events(300, &[("F", 5), ("M", 2)]).0);
    folder.run("run fairness.toml events.csv --to figure.svg --to verdicts.jsonl?select=alarms -q");
    let seconds = |line: &str| {
        let verdict: serde_json::Value = serde_json::from_str(line).unwrap();
        let parts: Vec<f64> =
            verdict["time"].as_str().unwrap()[11..23].split(':').map(|part| part.parse().unwrap()).collect();
        parts[0] * 3600.0 + parts[1] * 60.0 + parts[2]
    };
    let last: f64 =
        folder.read("events.csv").lines().last().unwrap().split(',').next().unwrap().parse().unwrap();
    // The frame is 520 wide, from 66 on; its first event was at 10 s.
    let across = |time: f64| 66.0 + (time - 10.0) / (last - 10.0) * 520.0;
    // Raised, cleared, raised, …; the last one is active.
    let mut turns: Vec<f64> = folder.read("verdicts.jsonl").lines().map(seconds).map(across).collect();
    assert!(turns.len() % 2 == 1, "{turns:?}");
    turns.push(586.0);
    let svg = folder.read("figure.svg");
    let shades = svg.lines().filter(|line| line.contains("#d55e00") && line.contains(" height=\"280\""));
    let number = |line: &str, name: &str| -> f64 {
        line.split(&format!(" {name}=\"")).nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
    };
    let shades: Vec<(f64, f64)> =
        shades.map(|line| (number(line, "x"), number(line, "x") + number(line, "width"))).collect();
    assert_eq!(shades.len(), turns.len() / 2, "{shades:?} {turns:?}");
    for ((from, to), turns) in shades.iter().zip(turns.chunks(2)) {
        assert!((from - turns[0]).abs() < 0.11 && (to - turns[1]).abs() < 0.11, "{shades:?} {turns:?}");
    }
    // One unit of the vertical axis is 280 pixels high.
    let band = svg.lines().find(|line| line.starts_with("<polygon")).unwrap();
    let points = band.split('"').nth(1).unwrap().split(' ').map(|point| point.split_once(',').unwrap().1);
    let heights: Vec<f64> = points.map(|height| height.parse().unwrap()).collect();
    assert!((heights.last().unwrap() - heights.first().unwrap() - 28.0).abs() < 0.2, "{band}");
}

/// Problems of the data are reported on the page.
#[test]
fn rows_that_do_not_count_are_reported() {
    let data = "time,id,group,accepted\n1,1,F,\n2,2,M,\n4,3,,\n5,x,M,\n3,4,F,\n9,5,M,\n";
    let folder = Folder::new().file("fairness.toml", FILE).file("e.csv", data);
    folder.run("report fairness.toml e.csv --on-bad-row skip --until 8 -q");
    let html = folder.read("report.html");
    for (name, value) in [
        ("read from", "e.csv"),
        ("rows read", "6"),
        ("rejected", "2, 1 of them too late"),
        ("outside of the span", "1"),
        ("judged", "3 events"),
        ("groups", "2"),
    ] {
        let row = format!("<dt>{name}</dt><dd>{value}</dd>");
        assert!(html.contains(&row), "no {row} in {}", html.split("dl>").nth(1).unwrap());
    }
    let left_out = "<dt>in no trial</dt><dd>1 row (33.3 %) without `group`: they open no trial";
    assert!(html.contains(left_out), "{}", html.split("dl>").nth(1).unwrap());
}

/// A very large number of alarms becomes a few rows with the right number.
#[test]
fn alarms_without_end_fit_on_a_page() {
    // Without a prior, every application changes the shares of two small groups.
    let mut data = "time,id,group,accepted\n".to_owned();
    let mut time = 0;
    for id in 0..3000_u64 {
        time += 10;
        data += &format!("{time},{id},{},\n", ["F", "M"][id as usize % 2]);
        if id % 4 < 2 {
            data += &format!("{time},,,{id}\n");
        }
    }
    let file = FILE
        .replace("tolerance = 0.1", "tolerance = 0.0001")
        .replace("prior = 0.5\nconfidence = 24", "confidence = 0");
    let folder = Folder::new().file("fairness.toml", file).file("e.csv", data);
    folder.run("run fairness.toml e.csv --to page.html --to verdicts.jsonl?select=alarms -q");
    let raised = folder.read("verdicts.jsonl").lines().filter(|line| line.contains("\"alarm\"")).count();
    assert!(raised > 600, "{raised}");
    let html = folder.read("page.html");
    assert!(html.contains(&format!("There were {} alarms.", group_digits(raised))), "{raised}");
    assert!(html.matches("<tr>").count() < 600 && html.len() < 400_000, "{}", html.len());
}

fn group_digits(number: usize) -> String {
    if number < 1000 { number.to_string() } else { format!("{},{:03}", number / 1000, number % 1000) }
}

/// The demo writes its page if none exists, and reports it otherwise.
#[test]
fn a_demo_destroys_nothing() {
    let folder = Folder::new();
    let printed = folder.run("demo");
    assert!(
        printed.contains("The same as an HTML page: report.html") && printed.ends_with("exit code 1\n"),
        "{printed}"
    );
    let html = folder.read("report.html");
    assert!(
        html.contains("<h2>Verdict: unfair</h2>") && html.contains("is 29.8 percentage points below M"),
        "{html}"
    );
    let folder = folder.file("report.html", "mine");
    assert!(folder.run("demo").contains("report.html is there already and was left as it is"));
    assert_eq!(folder.read("report.html"), "mine");
    assert!(folder.run("demo --to nowhere/page.html").contains("nowhere/page.html cannot be written"));
    // The command on the page makes the same page, byte by byte.
    let command = "report specs/guarantee/hiring.toml hiring:?applicants=1000&seed=1";
    assert!(
        html.contains(">fairstream report specs/guarantee/hiring.toml 'hiring:?applicants=1000&amp;seed=1'<"),
        "{html}"
    );
    std::fs::create_dir_all(folder.path().join("specs/guarantee")).unwrap();
    let file = "specs/guarantee/hiring.toml";
    std::fs::copy(root().join(file), folder.path().join(file)).unwrap();
    folder.run(command);
    assert_eq!(folder.read("report.html"), html);
}
