//! `cargo xtask bench engine`: how fast the engines are, and whether that is fast enough.

use std::path::Path;

use anyhow::Context;

use crate::cargo;

/// Runs the benchmark in `crates/engine/benches/engine`, which knows the options.
pub(crate) fn engine(options: &[&str]) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("no workspace around xtask")?;
    let out = root.join("target/bench");
    std::fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
    let out = out.join("engine.json");
    let out = out.to_str().context("the path of the workspace is not text")?;
    let mut arguments = vec!["bench", "-p", "fairstream-engine", "--bench", "engine", "--", "--out", out];
    arguments.extend(options);
    cargo(&arguments, &[])
}
