//! Reports: what a page says is what happened, whatever the data are.

use std::collections::BTreeMap;

use crate::cli::Folder;

const FILE: &str = r#"
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
confidence = 24
"#;

/// Applications of so many people in turn from these groups; every `n`-th of a group's is accepted.
fn events(people: u64, groups: &[(&str, u64)]) -> (String, BTreeMap<String, (u64, u64)>) {
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

fn report(data: &str) -> (String, String) {
    let folder = Folder::new().file("fairness.toml", FILE).file("events.csv", data);
    let said = folder.run("report fairness.toml events.csv -q");
    (folder.read("report.html"), said)
}

#[test]
fn numbers_on_the_page_are_those_of_the_events() {
    let (data, counts) = events(300, &[("F & co", 5), ("M", 2)]);
    let (html, said) = report(&data);
    assert!(said.ends_with("exit code 1\n"), "{said}");
    assert!(html.contains("<h2>Verdict: unfair</h2>"), "{html}");
    for (group, (applied, accepted)) in &counts {
        let estimate = (*accepted as f64 + 12.0) / (*applied as f64 + 24.0);
        let name = group.replace('&', "&amp;");
        let row = format!(
            "<tr><th scope=\"row\">{name}</th><td>{estimate:.3}</td><td>{accepted}</td><td>{applied}</td></tr>"
        );
        assert!(html.contains(&row), "no {row} in {html}");
    }
    let rate = |group: &str| {
        let (applied, accepted) = counts[group];
        (accepted as f64 + 12.0) / (applied as f64 + 24.0)
    };
    let apart = (rate("M") - rate("F & co")) * 100.0;
    assert!(html.contains(&format!("F &amp; co is {apart:.1} points below M")), "{html}");
    // What was asked, and how to ask again.
    assert!(html.contains("confidence = 24") && html.contains("fairstream report fairness.toml events.csv"));
}

#[test]
fn a_page_comes_of_any_number_of_groups_and_events() {
    let names: Vec<String> = (0..40).map(|number| format!("group {number:02}")).collect();
    let many: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 3)).collect();
    let (html, _) = report(&events(4000, &many).0);
    assert_eq!(html.matches("<th scope=\"row\">group ").count(), 40);
    assert!(html.contains("34 others"), "lines of six groups, and of the others together");

    let (html, said) = report(&events(20, &[("F", 3), ("M", 3)]).0);
    assert!(said.ends_with("exit code 0\n"), "{said}");
    // Without a guarantee nobody has weighed whether it is fair.
    assert!(html.contains("<h2>Verdict: no alarm</h2>") && !html.contains("<h3>Alarms</h3>"), "{html}");
    let (html, _) = report("time,id,group,accepted\n7,1,F,\n");
    assert!(html.contains("Verdict: not enough evidence yet") && !html.contains("<svg"), "{html}");

    let (html, _) = report("time,id,group,accepted\n");
    assert!(html.contains("No trial has been counted."), "{html}");
    assert!(html.contains("Verdict: not enough evidence yet"), "{html}");

    // A long run is drawn with few points, and its alarms are all there.
    let (html, _) = report(&events(30_000, &[("F", 5), ("M", 2)]).0);
    assert!(html.len() < 400_000, "{} bytes", html.len());
}

#[test]
fn a_report_is_of_a_fairness_file() {
    let folder =
        Folder::new().file("spec.lola", "input a: Int64\ntrigger a > 1\n").file("e.csv", "time,a\n1,2\n");
    let said = folder.run("run spec.lola e.csv --to page.html -q");
    assert!(said.ends_with("exit code 2\n") && said.contains("a report is about groups"), "{said}");
    let folder = Folder::new().file("fairness.toml", FILE).file("e.csv", "time,id,group,accepted\n");
    let said = folder.run("report fairness.toml e.csv --to nowhere/page.html -q");
    assert!(said.ends_with("exit code 2\n") && said.contains("nowhere/page.html"), "{said}");
}
