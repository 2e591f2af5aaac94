//! `cargo xtask reproduce`: the experiments of the paper.

use anyhow::Context;

use crate::{cargo, root};

/// Runs the experiments in `xtask/reproduce`, which parses their names. A few seeds need no optimised build.
pub(crate) fn run(options: &[&str]) -> anyhow::Result<()> {
    let root = root()?;
    let out = root.join("target/reproduce");
    let out = out.to_str().context("the path of the workspace is not text")?;
    let mut arguments = vec!["run", "--quiet", "--package", "reproduce"];
    if !options.contains(&"--quick") {
        arguments.push("--release");
    }
    arguments.extend(["--", "--out", out]);
    arguments.extend(options);
    cargo(&arguments, &[])
}
