//! Every check holds for every file of its corpus.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::collections::BTreeSet;
use std::path::Path;

use fairstream_fuzz::{CHECKS, check};

fn names(folder: &str) -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn every_check_has_a_corpus_and_a_target() {
    let checks: BTreeSet<String> = CHECKS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names("corpus"), checks);
    assert_eq!(names("libfuzzer/fuzz_targets"), checks);
}

#[test]
fn every_check_holds_for_its_corpus() {
    for (name, _) in CHECKS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
        let mut files = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            println!("{}", path.display());
            check(name, &bytes);
            // The check must also hold for truncated files and for files with appended bytes.
            check(name, &bytes[..bytes.len() / 2]);
            check(name, &[&bytes[..], b"\n"].concat());
            files += 1;
        }
        assert!(files > 0, "nothing was found for {name}");
    }
}
