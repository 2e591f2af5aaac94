//! `cargo xtask bench`: how fast fairstream is beside everything else; `bench engine`: how fast the engines are, and
//! whether that is fast enough.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::{cargo, python};

/// Runs the benchmark in `xtask/bench/src/engine`, which knows the options.
pub(crate) fn engine(options: &[&str]) -> anyhow::Result<()> {
    let out = folder()?.join("engine.json");
    let out = out.to_str().context("the path of the workspace is not text")?;
    let mut arguments = vec!["run", "--release", "-p", "bench", "--bin", "bench-engine", "--", "--out", out];
    arguments.extend(options);
    cargo(&arguments, &[])
}

/// Runs the comparison in `xtask/peers`, which knows the options and is a workspace of its own.
pub(crate) fn peers(options: &[&str]) -> anyhow::Result<()> {
    cargo(&["build", "--release", "-p", "fairstream"], &[])?;
    let (root, out) = (root()?, folder()?);
    let manifest = root.join("xtask/peers/Cargo.toml");
    let (target, fairstream) = (root.join("target/peers"), root.join("target/release/fairstream"));
    let paths = [&manifest, &target, &fairstream, &out].map(|path| path.to_str());
    let [Some(manifest), Some(target), Some(fairstream), Some(out)] = paths else {
        anyhow::bail!("the path of the workspace is not text");
    };
    let mut arguments = vec!["run", "--release", "--manifest-path", manifest, "--"];
    arguments.extend(["--fairstream", fairstream, "--out", out]);
    let python = python::with(&["duckdb"])?;
    if let Some(python) = python.as_deref().and_then(Path::to_str) {
        arguments.extend(["--python", python]);
    }
    arguments.extend(options);
    cargo(&arguments, &[("CARGO_TARGET_DIR", target)])
}

pub(crate) fn root() -> anyhow::Result<&'static Path> {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("no workspace around xtask")
}

/// Where results go.
pub(crate) fn folder() -> anyhow::Result<PathBuf> {
    let out = root()?.join("target/bench");
    std::fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
    Ok(out)
}
