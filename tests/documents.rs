//! The commands in the documents do what the documents say.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::plugins::rust_plugin;
use crate::support::{fairstream, root, without_seconds};

/// A command of a `console` block, and what it prints.
struct Example {
    line: usize,
    command: String,
    output: String,
}

/// Commands that are there to be read, not to be run by a test.
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

/// Runs every command of a document, one after another, where the document says: at the root.
fn check(document: &Path) -> usize {
    // A copy, so that what the commands write does not stay.
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
    let mut run = 0;
    for Example { line, command, output } in examples(&std::fs::read_to_string(document).unwrap()) {
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
        assert_eq!(
            without_seconds(&printed),
            without_seconds(&output),
            "{}:{line}: {command}",
            document.display()
        );
    }
    run
}

#[test]
fn the_readme_is_true() {
    assert!(check(&root().join("README.md")) >= 5);
    assert!(check(&root().join("docs/engine.md")) >= 5);
    assert!(check(&root().join("docs/scenarios.md")) >= 10);
    assert!(check(&root().join("docs/fairness-file.md")) >= 5);
    assert!(check(&root().join("docs/adapters.md")) >= 10);
    assert!(check(&root().join("docs/sweep.md")) >= 4);
    assert!(check(&root().join("docs/guarantee.md")) >= 5);
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
    for document in [
        "README.md",
        "ARCHITECTURE.md",
        "docs/adapters.md",
        "docs/engine.md",
        "docs/scenarios.md",
        "docs/fairness-file.md",
        "docs/guarantee.md",
        "docs/sweep.md",
        "examples/README.md",
        "examples/hiring/README.md",
        "examples/transactions/README.md",
    ] {
        let path = root().join(document);
        let text = std::fs::read_to_string(&path).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            assert!(path.parent().unwrap().join(link).exists(), "{document}: {link}");
        }
    }
    let map = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for word in map.split('`').skip(1).step_by(2) {
        let is_path =
            (word.starts_with("crates/") || word.starts_with("adapters/") || word.starts_with("tests/"))
                && !word.contains(' ');
        assert!(!is_path || root().join(word).exists(), "ARCHITECTURE.md names {word}");
    }
}
