//! The commands in the documents have the output that the documents show. With `FAIRSTREAM_UPDATE_DOCUMENTS` set, the
//! documents are rewritten instead.

use std::path::{Path, PathBuf};
use std::process::Command;

use fairstream_fairness::{FairnessFile, MetricKind};

use crate::plugins::rust_plugin;
use crate::support::{fairstream, root, without_seconds};

/// A command of a `console` block, and its expected output.
struct Example {
    /// Number of the line of the command, from 1.
    line: usize,
    command: String,
    output: String,
}

/// Commands that are not run by the tests.
const NOT_RUN: [&str; 2] = ["cargo xtask ci", "cargo build -q -p plugin-rust"];

fn examples(text: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if inside {
            match (line.strip_prefix("$ "), examples.last_mut()) {
                (Some(command), _) => {
                    let command = command.replace("cargo run -- ", "fairstream ");
                    examples.push(Example { line: index + 1, command, output: String::new() });
                }
                (None, Some(example)) => example.output += &format!("{line}\n"),
                (None, None) => panic!("line {}: output without a command", index + 1),
            }
        }
    }
    examples
}

/// Runs every command of a document in order, in a copy of the root of the repository.
fn check(document: &Path) -> usize {
    // A copy, so that files that the commands write are removed.
    let place = tempfile::tempdir().unwrap();
    for folder in ["specs", "examples"] {
        let copied =
            Command::new("cp").arg("-r").arg(root().join(folder)).arg(place.path()).status().unwrap();
        assert!(copied.success());
    }
    for folder in ["crates", "target/debug"] {
        std::fs::create_dir_all(place.path().join(folder)).unwrap();
    }
    let link = |from: PathBuf, to: &str| std::os::unix::fs::symlink(from, place.path().join(to)).unwrap();
    link(root().join("crates/plugin-abi"), "crates/plugin-abi");
    link(rust_plugin(), "target/debug/libplugin_rust.so");
    let binary = fairstream().get_program().to_owned();
    std::os::unix::fs::symlink(binary, place.path().join("fairstream")).unwrap();
    let path = format!("{}:{}", place.path().display(), std::env::var("PATH").unwrap_or_default());
    let text = std::fs::read_to_string(document).unwrap();
    let is_update = std::env::var_os("FAIRSTREAM_UPDATE_DOCUMENTS").is_some();
    let (mut run, mut outputs) = (0, Vec::new());
    for Example { line, command, output } in examples(&text) {
        if NOT_RUN.contains(&command.as_str()) {
            continue;
        }
        run += 1;
        let done = Command::new("sh")
            .args(["-c", &format!("{command} 2>&1")])
            .env("PATH", &path)
            .env("NO_COLOR", "1")
            .current_dir(place.path())
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&done.stdout);
        if is_update {
            if without_seconds(&printed) != without_seconds(&output) {
                outputs.push((line, output.lines().count(), printed.into_owned()));
            }
            continue;
        }
        assert_eq!(
            without_seconds(&printed),
            without_seconds(&output),
            "{}:{line}: {command}",
            document.display()
        );
    }
    if !outputs.is_empty() {
        update(document, &text, outputs);
    }
    run
}

/// Replaces outputs, each with the line of its command and its number of lines.
fn update(document: &Path, text: &str, outputs: Vec<(usize, usize, String)>) {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (line, count, output) in outputs.into_iter().rev() {
        lines.splice(line..line + count, output.lines().map(str::to_owned));
    }
    std::fs::write(document, lines.join("\n") + "\n").unwrap();
}

/// The chapters of the book, from its table of contents.
fn chapters() -> Vec<PathBuf> {
    let summary = std::fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    links(&summary).map(|(link, _)| root().join("docs").join(link)).collect()
}

#[test]
fn the_readme_is_true() {
    assert!(check(&root().join("README.md")) >= 5);
}

#[test]
fn the_book_is_true() {
    let (chapters, mut run) = (chapters(), 0);
    for chapter in &chapters {
        run += check(chapter);
    }
    assert!(run >= 60, "{run} commands");
    for page in std::fs::read_dir(root().join("docs")).unwrap() {
        let page = page.unwrap().path();
        let is_page = page.extension().is_some_and(|ending| ending == "md") && !page.ends_with("SUMMARY.md");
        assert!(!is_page || chapters.contains(&page), "{} is no chapter of SUMMARY.md", page.display());
    }
}

/// The examples in the chapter on metrics are valid, and every metric has a section that says when not to use it.
#[test]
fn every_metric_has_its_section() {
    const AROUND: &str = r#"
        [events.columns]
        id = "UInt64"
        group = "String"
        department = "String"
        event = "String"
        score = "Float64"
        approved = "Bool"
        [trial]
        key = "id"
        group = "group"
        [indicators]
    "#;
    let indicators = "accepted admitted hired high_risk reoffended paid disputed granted applied decided";
    let indicators: String =
        indicators.split(' ').map(|name| format!("{name} = 'event == \"{name}\"'\n")).collect();
    let text = std::fs::read_to_string(root().join("docs/metrics.md")).unwrap();
    let mut seen = Vec::new();
    for section in text.split("\n## ").skip(1) {
        for table in section.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            let file = format!("{AROUND}{indicators}[[fairness]]\ntolerance = 0.1\nrule = \"map\"\n{table}");
            let parsed = FairnessFile::parse("metrics.md", &file).and_then(|file| file.compile(&[]));
            parsed.unwrap_or_else(|error| panic!("{error}"));
            let name = table.lines().next().unwrap().split('"').nth(1).unwrap().to_owned();
            assert_eq!(anchor(section.lines().next().unwrap()), name, "the section of another metric");
            assert!(section.contains("```text\n") && section.contains("**Not** "), "{name}");
            seen.push(name);
        }
    }
    for metric in MetricKind::ALL {
        assert!(seen.iter().any(|name| name == metric.name()), "{} has no section", metric.name());
    }
}

#[test]
fn the_examples_are_true() {
    let mut run = 0;
    for example in std::fs::read_dir(root().join("examples")).unwrap() {
        let readme = example.unwrap().path().join("README.md");
        if readme.is_file() {
            let commands = check(&readme);
            assert!(commands > 0, "{} has no command", readme.display());
            run += 1;
        }
    }
    assert!(run >= 2);
}

#[test]
fn links_lead_somewhere_and_the_map_names_what_is_there() {
    let pages = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/SUMMARY.md"];
    let pages = pages.map(|page| root().join(page));
    let examples = std::fs::read_dir(root().join("examples")).unwrap();
    let examples = examples.map(|example| example.unwrap().path().join("README.md"));
    let more = [root().join("examples/README.md")];
    for page in pages.into_iter().chain(chapters()).chain(examples).chain(more).filter(|page| page.is_file())
    {
        let text = std::fs::read_to_string(&page).unwrap();
        for (link, heading) in links(&text) {
            let target = if link.is_empty() { page.clone() } else { page.parent().unwrap().join(link) };
            assert!(target.exists(), "{}: {link}", page.display());
            let leaves = page.starts_with(root().join("docs")) && link.starts_with("..");
            assert!(!leaves, "{}: {link} is not in the book", page.display());
            let Some(heading) = heading else { continue };
            let text = std::fs::read_to_string(&target).unwrap();
            let mut headings = text.lines().filter(|line| line.starts_with('#')).map(anchor);
            assert!(headings.any(|anchor| anchor == heading), "{}: {link}#{heading}", page.display());
        }
    }
    let map = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for word in map.split('`').skip(1).step_by(2) {
        let is_path =
            (word.starts_with("crates/") || word.starts_with("adapters/") || word.starts_with("tests/"))
                && !word.contains([' ', '*'])
                && !word.contains("NAME");
        assert!(!is_path || root().join(word).exists(), "ARCHITECTURE.md names {word}");
    }
}

/// The links of a text: path and heading. Links out of the repository are ignored.
fn links(text: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    links.filter(|link| !link.starts_with("https:")).map(|link| match link.split_once('#') {
        Some((path, heading)) => (path, Some(heading)),
        None => (link, None),
    })
}

/// The name of a heading in links to it.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>().replace(' ', "-")
}
