//! What is shown: nothing from data or from files of others acts on a terminal, in any renderer.

use crate::cli::Folder;
use crate::support::root;

/// A name that clears the screen, breaks the line, and turns the direction of what follows.
const NAME: &str = "F\u{1b}[2J\n\u{202e}ALARM\u{7}\u{9b}0m";
const SHOWN: &str = "F\\u{1b}[2J\\n\\u{202e}ALARM\\u{7}\\u{9b}0m";

fn is_harmless(text: &str) -> bool {
    !text.contains(|c: char| c.is_control() && c != '\n' || matches!(c, '\u{202a}'..='\u{202e}'))
}

fn file(title: &str) -> String {
    format!(
        "name = \"{title}\"\n[events]\ntime = \"row\"\n[trial]\nkey = \"row\"\ngroup = \"sex\"\nhorizon = \"0s\"\n\
         [indicators]\nyes = 'a > 0'\n[[fairness]]\nmetric = \"demographic-parity\"\ndecision = \"yes\"\n\
         tolerance = 0.1\nrule = \"map\"\nname = \"{title}\"\n"
    )
}

#[test]
fn names_from_data_are_escaped_by_every_renderer() {
    let rows: String =
        (0..40).map(|row| format!("\"{}\",{}\n", if row % 2 == 0 { NAME } else { "M" }, row % 2)).collect();
    let folder = Folder::new().file("a.toml", file("parity")).file("people.csv", format!("sex,a\n{rows}"));
    let shown = folder
        .run("run a.toml people.csv --to console --to a.csv --to a.jsonl --to r.html --to s.json --evidence e.jsonl");
    assert!(shown.contains(SHOWN) && shown.ends_with("exit code 1\n"), "{shown}");
    for text in [
        shown,
        folder.run("check a.toml people.csv"),
        folder.run("explain a.jsonl e.jsonl"),
        folder.run("explain a.jsonl e.jsonl --list"),
        folder.run("run a.toml people.csv --to console?select=changes"),
        folder.run("run a.toml people.csv --live"),
        folder.read("r.html"),
    ] {
        assert!(is_harmless(&text), "{text:?}");
    }
    // Machines still read the name as it is.
    let summary: serde_json::Value = serde_json::from_str(&folder.read("s.json")).unwrap();
    let groups = summary["metrics"][0]["rates"][0]["strata"][0]["groups"].as_array().unwrap();
    assert!(groups.iter().any(|group| group["group"]["sex"] == NAME), "{groups:?}");
}

#[test]
fn errors_escape_what_they_quote() {
    let folder = Folder::new()
        .file("events.csv", "time,id,score,name\n1,\u{1b}[31mx,1,a\n")
        .file("e\u{1b}[31m.csv", "time,id,score,name\n1,x,1,a\n")
        .file("bad.lola", "input a : Int64\ntrigger b > 0 \"\u{1b}[2J\u{202e}\"\n")
        .file("bad.toml", file("parity \\u001B[31m\\u202E"));
    for arguments in [
        "run spec.lola events.csv",
        "run spec.lola e\u{1b}[31m.csv",
        "run spec.lola events.csv --on-bad-row skip",
        "run bad.lola events.csv",
        "check bad.lola",
        "check bad.toml",
        "init e\u{1b}[31m.csv",
    ] {
        let text = folder.run(arguments);
        let (_, after) = text.split_once('\n').unwrap();
        assert!(is_harmless(after), "{after:?}");
        assert!(after.contains("u{1b}") || after.contains("u001B"), "{after}");
    }
    folder.run("run spec.lola events.csv --on-bad-row file=bad.csv");
    assert!(is_harmless(&folder.read("bad.csv")), "{}", folder.read("bad.csv"));
}

/// Long names are cut, and no width is too large.
#[test]
fn long_names_are_cut() {
    let name = "n".repeat(65_536);
    let rows: String = (0..40)
        .map(|row| format!("{},{},1\n", if row % 2 == 0 { name.as_str() } else { "M" }, row % 2))
        .collect();
    let folder = Folder::new()
        .file("a.toml", file("parity"))
        .file("people.csv", format!("sex,a,{name}\n{rows}"))
        .file(
            "long.lola",
            format!("input {name} : Int64\noutput o{name} := {name}\ntrigger o{name} > 0 \"x\"\n"),
        )
        .file("events.csv", format!("time,{name}\n1,1\n"));
    let shown = folder.run("run a.toml people.csv --to console --to r.html --to a.jsonl --evidence e.jsonl");
    assert!(shown.contains(&format!("{}…", "n".repeat(100))) && shown.ends_with("exit code 1\n"));
    assert!(!shown.contains(&"n".repeat(1000)));
    for arguments in [
        "check a.toml people.csv",
        "init people.csv",
        "explain a.jsonl e.jsonl",
        "check long.lola",
        "check long.lola --plan",
    ] {
        let text = folder.run(arguments);
        assert!(text.ends_with("exit code 0\n"), "{arguments}: {}", &text[..text.len().min(2000)]);
    }
    let text = folder.run("run long.lola events.csv");
    assert!(text.ends_with("exit code 1\n"), "{}", &text[..text.len().min(2000)]);
}

/// Formulas in tables can be neutralised.
#[test]
fn formulas_can_be_escaped() {
    let rows: String =
        (0..40).map(|row| format!("{},{}\n", if row % 2 == 0 { "=1+1" } else { "@M" }, row % 2)).collect();
    let folder = Folder::new().file("a.toml", file("=cmd|calc")).file("people.csv", format!("sex,a\n{rows}"));
    folder.run("run a.toml people.csv -q --to plain.csv --to safe.csv?formulas=escape");
    assert!(folder.read("plain.csv").contains(",\"=cmd|calc"), "{}", folder.read("plain.csv"));
    let safe = folder.read("safe.csv");
    assert!(safe.contains(",\"'=cmd|calc") && !safe.contains(",=") && !safe.contains(",\"="), "{safe}");
}

/// More seeds than any machine could try are an error, at once.
#[test]
fn too_many_seeds_are_refused() {
    let spec = std::fs::read_to_string(root().join("specs/hiring.toml")).unwrap();
    let folder = Folder::new().file("a.toml", spec);
    let text = folder.run("sweep a.toml hiring:?applicants=10 --seeds 1..1000000000000");
    assert!(text.contains("more than 1,000,000 runs") && text.ends_with("exit code 2\n"), "{text}");
}
