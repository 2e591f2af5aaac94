//! `cargo xtask bench adapters`: how fast the sources are beside the fastest readers of their formats.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::bench::{folder, root};
use crate::cargo;

/// Runs the benchmark in `xtask/readers`, which knows the options: a workspace of its own, with all that the
/// sources are compared with.
pub(crate) fn adapters(options: &[&str]) -> anyhow::Result<()> {
    let out = folder()?;
    let text =
        |path: &Path| path.to_str().map(str::to_owned).context("the path of the workspace is not text");
    let manifest = text(&root()?.join("xtask/readers/Cargo.toml"))?;
    let target = text(&root()?.join("target/readers"))?;
    let mut arguments =
        vec!["run", "--quiet", "--release", "--manifest-path", &manifest, "--target-dir", &target];
    let out_text = text(&out)?;
    arguments.extend(["--", "--out", &out_text]);
    let python = python(&out.join("venv"));
    let python = python.as_deref().map(text).transpose()?;
    if let Some(python) = &python {
        arguments.extend(["--python", python]);
    }
    arguments.extend(options);
    cargo(&arguments, &[])
}

/// A Python that has DuckDB and Polars; `None` where it cannot be had, and why is said.
fn python(folder: &Path) -> Option<PathBuf> {
    let python = folder.join("bin/python");
    let run = |program: &Path, arguments: &[&str]| {
        let done = Command::new(program).args(arguments).output();
        let done = done.map_err(|error| error.to_string()).and_then(|done| match done.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&done.stderr).trim().to_owned()),
        });
        done.map_err(|reason| eprintln!("missing: DuckDB and Polars: {reason}")).ok()
    };
    if !python.exists() {
        run(Path::new("python3"), &["-m", "venv", folder.to_str()?])?;
    }
    run(&python, &["-m", "pip", "install", "--quiet", "duckdb", "polars"])?;
    Some(python)
}
