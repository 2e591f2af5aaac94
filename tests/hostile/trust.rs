//! A fairness file from a stranger: it loads no code, reads and writes nothing outside of its folder, and no output
//! replaces what is read, unless the user asks for it.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::plugins::c_plugin;
use crate::support::fairstream;

pub(super) const FAIR: &str = r#"[events.columns]
id = "String"
gender = "String"
hired = "Bool"
[trial]
key = "id"
group = "gender"
horizon = "0s"
[indicators]
hired = "hired"
[[fairness]]
metric = "demographic-parity"
decision = "hired"
tolerance = 0.1
"#;

/// The events of 40 persons, whose keys look like nothing else.
fn events() -> String {
    let rows: String = (0..40)
        .map(|n| format!("{n},person-{n:04},{},{}\n", if n % 2 == 0 { "F" } else { "M" }, n % 4 == 1))
        .collect();
    format!("time,id,gender,hired\n{rows}")
}

/// A folder `own` with a fairness file and its events, and a folder `other` beside it.
pub(super) struct Folders(tempfile::TempDir);

impl Folders {
    pub(super) fn new(endpoints: &str) -> Folders {
        let folders = Folders(tempfile::tempdir().unwrap());
        for folder in ["own/data", "other", "config"] {
            std::fs::create_dir_all(folders.0.path().join(folder)).unwrap();
        }
        folders.write("own/fair.toml", &format!("{FAIR}{endpoints}"));
        folders.write("own/events.csv", &events());
        folders.write("other/events.csv", &events());
        folders
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Runs a command in the folder `own`. Returns its exit code, and everything it prints.
    pub(super) fn run(&self, arguments: &str) -> (Option<i32>, String) {
        self.run_with(arguments, |command| command)
    }

    fn run_with(
        &self,
        arguments: &str,
        with: impl Fn(&mut Command) -> &mut Command,
    ) -> (Option<i32>, String) {
        let mut command = fairstream();
        command.args(arguments.split_whitespace()).current_dir(self.path("own"));
        command.env("XDG_CONFIG_HOME", self.path("config"));
        let output = with(&mut command).output().unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (output.status.code(), text)
    }
}

/// A library that leaves a file called `loaded` in the current folder as soon as it is loaded.
fn telltale(to: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("telltale.c");
    let text = "#include <stdio.h>\n__attribute__((constructor)) static void loaded(void) {\n  \
                FILE *file = fopen(\"loaded\", \"w\");\n  if (file) fclose(file);\n}\n";
    std::fs::write(&source, text).unwrap();
    c_plugin(&source, &[], to);
}

#[test]
fn a_fairness_file_loads_no_code_unasked() {
    let folders = Folders::new("[[source]]\nkind = \"plugin\"\npath = \"events.parquet\"\n");
    telltale(&folders.path("own/events.parquet"));
    let is_loaded = || folders.path("own/loaded").exists();
    for command in ["run fair.toml", "report fair.toml", "run ../own/fair.toml -q", "run fair.toml --verify"]
    {
        let (code, text) = folders.run(command);
        assert_eq!(code, Some(2), "{command}: {text}");
        assert!(text.contains("fair.toml:17:8"), "{text}");
        assert!(text.contains("would load `events.parquet`, a plugin"), "{text}");
        assert!(text.contains("--trust "), "{text}");
        assert!(!is_loaded(), "{command}");
    }
    // What is described or proposed is never loaded, whether it is trusted or typed.
    for command in
        ["check fair.toml", "check fair.toml --trust fair.toml", "check fair.toml plugin:events.parquet"]
    {
        let (code, text) = folders.run(command);
        assert_eq!(code, Some(0), "{command}: {text}");
        assert!(text.contains("events.parquet is a plugin, and `check` loads no code"), "{text}");
        assert_eq!(
            text.contains("warning: this file is not trusted"),
            command == "check fair.toml",
            "{text}"
        );
        assert!(!is_loaded(), "{command}");
    }
    let (code, text) = folders.run("init plugin:events.parquet");
    assert!(code == Some(2) && text.contains("`init` loads no code") && !is_loaded(), "{text}");
    // Inputs of the user's own replace those of the file.
    assert_eq!(folders.run("run fair.toml events.csv -q").0, Some(0));
    assert!(!is_loaded());
    let (code, text) = folders.run("run fair.toml --trust fair.toml");
    assert!(code == Some(2) && text.contains("it is not a plugin") && is_loaded(), "{text}");
}

#[test]
fn a_sink_that_is_a_plugin_needs_trust() {
    let folders = Folders::new("[[sink]]\nkind = \"plugin\"\npath = \"./out.csv\"\n");
    telltale(&folders.path("own/out.csv"));
    let (code, text) = folders.run("run fair.toml events.csv");
    assert!(code == Some(2) && text.contains("would load `./out.csv`, a plugin"), "{text}");
    let (code, text) = folders.run("check fair.toml events.csv");
    assert!(code == Some(0) && text.contains("warning: this file is not trusted"), "{text}");
    assert!(!folders.path("own/loaded").exists());
}

#[test]
fn a_fairness_file_reads_nothing_outside_of_its_folder_unasked() {
    let outside = |path: &str| {
        let folders = Folders::new(&format!("[[source]]\npath = \"{path}\"\n"));
        symlink(folders.path("other/events.csv"), folders.path("own/link.csv")).unwrap();
        symlink(folders.path("own/link.csv"), folders.path("own/twice.csv")).unwrap();
        symlink(folders.path("other/events.csv"), folders.path("own/data/1.csv")).unwrap();
        symlink(folders.path("other"), folders.path("own/folder")).unwrap();
        symlink(folders.path("own/events.csv"), folders.path("own/inside.csv")).unwrap();
        folders
    };
    let elsewhere = outside("").path("other/events.csv");
    for path in [
        "../other/events.csv",
        "../other/*.csv",
        "data/../../other/events.csv",
        "/dev/null",
        elsewhere.to_str().unwrap(),
        "link.csv",
        "twice.csv",
        "folder/events.csv",
        "folder",
        "folder/*.csv",
        "f*/events.csv",
        "data",
        "data/*.csv",
        "**/1.csv",
    ] {
        let folders = outside(path);
        for command in ["run", "check"] {
            let (code, text) = folders.run(&format!("{command} fair.toml"));
            assert!(
                code == Some(2) && text.contains("not trusted, and would read"),
                "{command} {path}: {text}"
            );
            assert!(text.contains("fair.toml:16:8") && text.contains(&format!("`{path}`")), "{path}: {text}");
        }
    }
    for path in
        ["events.csv", "./events.csv", "inside.csv", "data/../events.csv", "even*.csv", "../own/events.csv"]
    {
        let folders = outside(path);
        for command in ["run fair.toml -q", "check fair.toml", "run ../own/fair.toml -q"] {
            let (code, text) = folders.run(command);
            assert_eq!(code, Some(0), "{command}, {path}: {text}");
        }
    }
    let folders = outside("../other/events.csv");
    assert_eq!(folders.run("run fair.toml -q --trust fair.toml").0, Some(0));
    assert_eq!(folders.run("run fair.toml -q --trust other.toml").0, Some(2));
}

#[test]
fn a_fairness_file_writes_nothing_outside_of_its_folder_unasked() {
    let with = |sink: &str| {
        let folders = Folders::new(&format!("[[sink]]\n{sink}\n"));
        symlink(folders.path("other/new.jsonl"), folders.path("own/link.jsonl")).unwrap();
        symlink(folders.path("other"), folders.path("own/folder")).unwrap();
        folders.write("own/thesis.txt", "years of work");
        folders
    };
    for sink in [
        "path = \"../other/new.jsonl\"",
        "path = \"link.jsonl\"",
        "path = \"folder/new.jsonl\"",
        "path = \"console\"\nkind = \"jsonl\"",
        "path = \"/dev/full\"\nkind = \"jsonl\"",
        "path = \"thesis.txt\"\nkind = \"jsonl\"\nmode = \"replace\"",
        "path = \"thesis.txt\"\nkind = \"csv\"\nmode = \"append\"",
        "path = \"thesis.txt\"\nkind = \"html\"",
    ] {
        let folders = with(sink);
        // From another folder, `console` of another kind would be a file there.
        let (code, text) = folders.run_with("run ../own/fair.toml ../own/events.csv", |command| {
            command.current_dir(folders.path("other"))
        });
        if sink.contains("console") {
            assert_eq!(std::fs::read_dir(folders.path("other")).unwrap().count(), 1, "{text}");
        }
        assert!(code == Some(2) && text.contains("not trusted, and would"), "{sink}: {text}");
        assert!(text.contains("own/fair.toml:16:8") && text.contains("`--to`"), "{sink}: {text}");
        assert!(
            !folders.path("other/new.jsonl").exists() && folders.read("own/thesis.txt") == "years of work"
        );
        // An output of the user's own replaces it.
        let (code, text) = folders.run("run fair.toml events.csv --to own.jsonl -q");
        assert_eq!(code, Some(0), "{sink}: {text}");
    }
    for sink in ["path = \"new.jsonl\"", "path = \"-\"", "path = \"console\"", "path = \"page.html\""] {
        let (code, text) = with(sink).run("run fair.toml events.csv -q");
        assert_eq!(code, Some(0), "{sink}: {text}");
    }
    let folders = with("path = \"../other/new.jsonl\"\nselect = \"changes\"");
    assert_eq!(folders.run("run fair.toml events.csv -q --trust fair.toml").0, Some(0));
    assert!(folders.path("other/new.jsonl").exists());
}

#[test]
fn a_file_is_trusted_by_its_digest_until_it_changes() {
    let folders = Folders::new("[[source]]\npath = \"../other/events.csv\"\n");
    let trusted = folders.path("config/fairstream/trusted");
    std::fs::create_dir_all(&trusted).unwrap();
    let digest = |text: &str| -> String {
        Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    assert_eq!(folders.run("run fair.toml -q").0, Some(2));
    std::fs::write(trusted.join(digest(&folders.read("own/fair.toml"))), "").unwrap();
    assert_eq!(folders.run("run fair.toml -q").0, Some(0));
    folders.write("own/fair.toml", &(folders.read("own/fair.toml") + "# one more line\n"));
    assert_eq!(folders.run("run fair.toml -q").0, Some(2));
    std::fs::write(trusted.join(digest(&folders.read("own/fair.toml"))), "").unwrap();
    assert_eq!(folders.run("run fair.toml -q").0, Some(0));
    // Without XDG_CONFIG_HOME it is below the home; a relative path, which a stranger's folder may have, is none.
    std::fs::rename(folders.path("config"), folders.path("own/.config")).unwrap();
    let home = |folder: &'static str| {
        let own = folders.path("own");
        folders.run_with("run fair.toml -q", move |command| {
            command
                .env_remove("XDG_CONFIG_HOME")
                .env("HOME", if folder.is_empty() { own.as_os_str() } else { folder.as_ref() })
        })
    };
    assert_eq!(home("").0, Some(0));
    assert_eq!(home(".").0, Some(2));
    let relative = folders.run_with("run fair.toml -q", |command| {
        command.env("XDG_CONFIG_HOME", ".config").env("HOME", "/nowhere")
    });
    assert_eq!(relative.0, Some(2));
}

#[test]
fn no_output_replaces_what_is_read() {
    const SECRET: &str = "a secret of more than sixteen bytes";
    let files = ["own/secret.csv", "own/fair.toml", "own/events.csv", "own/labels/1.csv"];
    let folders = Folders::new("");
    folders.write("own/sink.toml", &format!("{FAIR}[[sink]]\npath = \"secret.csv\"\nmode = \"replace\"\n"));
    std::fs::create_dir(folders.path("own/labels")).unwrap();
    folders.write("own/labels/1.csv", "time,id,gender,hired\n1,person-0001,F,true\n");
    folders.write("own/secret.csv", SECRET);
    std::fs::hard_link(folders.path("own/secret.csv"), folders.path("own/hard.csv")).unwrap();
    symlink(folders.path("own/secret.csv"), folders.path("own/soft.csv")).unwrap();
    symlink(folders.path("own/new.csv"), folders.path("own/to_new.csv")).unwrap();
    symlink("a_cycle.csv", folders.path("own/a_cycle.csv")).unwrap();
    let contents = || files.map(|file| folders.read(file));
    let before = contents();
    let hashed = "run fair.toml events.csv -q --hash-keys secret.csv";
    for (command, expected) in [
        (
            format!("{hashed} --evidence secret.csv?mode=replace"),
            "secret.csv is the secret of `--hash-keys`; writing",
        ),
        (
            format!("{hashed} --evidence e.csv --to ./secret.csv?mode=replace"),
            "./secret.csv is secret.csv, the secret",
        ),
        (
            format!("{hashed} --evidence e.csv --to hard.csv?mode=replace"),
            "hard.csv is secret.csv, the secret",
        ),
        (
            format!("{hashed} --evidence e.csv --to soft.csv?mode=replace"),
            "soft.csv is secret.csv, the secret",
        ),
        (
            format!("{hashed} --evidence e.csv --to html:data/../hard.csv"),
            "data/../hard.csv is secret.csv, the secret",
        ),
        (
            format!("{hashed} --evidence e.csv --on-bad-row file=hard.csv"),
            "hard.csv is secret.csv, the secret",
        ),
        (hashed.replace("fair", "sink") + " --evidence e.csv --trust sink.toml", "secret.csv is the secret"),
        (format!("{hashed} --evidence csv:fair.toml?mode=replace"), "fair.toml is the specification"),
        (format!("{hashed} --evidence events.csv?mode=replace"), "events.csv is an input"),
        (
            format!("{hashed} --evidence new.csv --to to_new.csv"),
            "new.csv is written to twice, also as to_new.csv",
        ),
        (format!("{hashed} --evidence new.csv --to data/../new.csv"), "written to twice"),
        (format!("{hashed} --evidence new.csv --to a_cycle.csv"), "a_cycle.csv"),
        ("run fair.toml events.csv labels?join=id --to labels/1.csv?mode=replace".to_owned(), "is an input"),
        ("run fair.toml csv:labels --to labels/1.csv?mode=replace".to_owned(), "labels/1.csv is an input"),
        ("report fair.toml events.csv --to html:events.csv".to_owned(), "events.csv is an input"),
        ("report fair.toml events.csv --to html:fair.toml".to_owned(), "fair.toml is the specification"),
        ("sweep fair.toml events.csv --to events.csv".to_owned(), "events.csv is an input"),
        ("sweep fair.toml events.csv --to fair.toml".to_owned(), "fair.toml is the specification"),
        ("init events.csv --to events.csv".to_owned(), "events.csv is the data"),
        ("init events.csv --to secret.csv".to_owned(), "cannot write secret.csv"),
        ("demo --to secret.csv".to_owned(), "secret.csv is there already"),
        ("generate compas events.csv --to data/../events.csv".to_owned(), "is events.csv, the input"),
        ("explain events.csv secret.csv --trials hard.csv".to_owned(), ""),
    ] {
        let (code, text) = folders.run(&command);
        assert!(
            text.contains(expected) && (code == Some(2) || command.starts_with("demo")),
            "{command}: {text}"
        );
        assert_eq!(contents(), before, "{command}");
        assert_eq!(folders.read("own/hard.csv"), SECRET, "{command}");
        assert!(!folders.path("own/new.csv").exists() && !folders.path("own/e.csv").exists(), "{command}");
    }
}

#[test]
fn hashed_keys_are_hashed_in_every_verdict() {
    let folders = Folders::new("");
    folders.write("own/secret", "a secret of more than sixteen bytes");
    for (kind, text) in [("jsonl", "\"instance\":[\""), ("csv", "\"\"")] {
        let command = format!(
            "run fair.toml events.csv -q --hash-keys secret --evidence evidence.jsonl?mode=replace --to \
             verdicts.{kind}?select=changes"
        );
        assert_eq!(folders.run(&command).0, Some(0));
        let verdicts = folders.read(&format!("own/verdicts.{kind}"));
        assert!(verdicts.lines().count() > 100 && verdicts.contains(text), "{verdicts}");
        assert!(!verdicts.contains("person-"), "{verdicts}");
    }
    let verdicts = folders.read("own/verdicts.jsonl");
    let of_verdicts: BTreeSet<String> = verdicts
        .lines()
        .filter_map(|line| {
            let verdict: serde_json::Value = serde_json::from_str(line).unwrap();
            Some(verdict["instance"].as_array()?.first()?.as_str()?.to_owned())
        })
        .filter(|key| key.len() > 1)
        .collect();
    let evidence = folders.read("own/evidence.jsonl");
    let of_evidence: BTreeSet<String> = evidence
        .lines()
        .filter_map(|line| {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            Some(row["key"].as_str()?.to_owned())
        })
        .collect();
    assert_eq!(of_evidence.len(), 40);
    assert_eq!(of_verdicts, of_evidence);
    // Without a secret, keys are keys.
    assert_eq!(folders.run("run fair.toml events.csv -q --to plain.jsonl?select=changes").0, Some(0));
    assert!(folders.read("own/plain.jsonl").contains("[\"person-0001\"]"));
}

#[test]
fn values_that_may_be_keys_are_refused_where_keys_are_hashed() {
    let folders = Folders::new("");
    let file = FAIR.replace("id = \"String\"", "id = \"UInt64\"").replace(
        "metric = \"demographic-parity\"\ndecision = \"hired\"",
        "metric = \"mean-difference\"\nof = \"id\"\nrule = \"map\"",
    );
    folders.write("own/mean.toml", &file);
    folders.write("own/numbers.csv", &events().replace("person-00", "9"));
    folders.write("own/secret", "a secret of more than sixteen bytes");
    let run = "run mean.toml numbers.csv -q --evidence evidence.csv?mode=replace";
    let (code, text) = folders.run(&format!("{run} --hash-keys secret --to a.jsonl?select=changes"));
    assert!(code == Some(2) && text.contains("the values of `id`"), "{text}");
    assert!(!folders.read("own/a.jsonl").contains("900"));
    assert_ne!(folders.run(&format!("{run} --hash-keys secret --to b.jsonl?select=alarms")).0, Some(2));
    assert_ne!(folders.run(&format!("{run} --to c.jsonl?select=changes")).0, Some(2));
}
