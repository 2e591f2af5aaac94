//! `cargo xtask bench adapters`: the speed of the sources compared with the fastest readers of their formats.

use std::path::Path;

use anyhow::Context;

use crate::bench::folder;
use crate::{cargo, python, root};

/// Runs the benchmark in `xtask/readers`, which parses the options. It is a separate workspace, with all readers
/// that the sources are compared with.
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
    let python = python::with(&["duckdb", "polars"])?;
    let python = python.as_deref().map(text).transpose()?;
    if let Some(python) = &python {
        arguments.extend(["--python", python]);
    }
    arguments.extend(options);
    cargo(&arguments, &[])
}
