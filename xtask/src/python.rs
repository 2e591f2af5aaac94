//! The Python environment of the benchmarks, under `target/bench`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::bench::folder;

/// A Python that has these packages; `None`, with a message on standard error, if they cannot be installed.
pub(crate) fn with(packages: &[&str]) -> anyhow::Result<Option<PathBuf>> {
    let folder = folder()?.join("venv");
    let python = folder.join("bin/python");
    let place = folder.to_str().context("the path of the workspace is not text")?;
    let is_there = python.exists() || run(Path::new("python3"), &["-m", "venv", place], packages);
    let install = [&["-m", "pip", "install", "--quiet"], packages].concat();
    Ok((is_there && run(&python, &install, packages)).then_some(python))
}

fn run(program: &Path, arguments: &[&str], packages: &[&str]) -> bool {
    let done = Command::new(program).args(arguments).output();
    let reason = match done {
        Ok(done) if done.status.success() => return true,
        Ok(done) => String::from_utf8_lossy(&done.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    eprintln!("missing: Python with {}: {reason}", packages.join(", "));
    false
}
