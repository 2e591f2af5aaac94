//! `cargo xtask bench`: the speed of fairstream compared with other systems; `bench engine`: the speed of the
//! engines, and whether it meets the requirements.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::{cargo, python, root};

pub(crate) const HELP: &str = "\
cargo xtask bench [OPTION]...

Measures fairstream and its alternatives on the same events, in one run; all must give the same verdicts.
Builds what it needs, and writes tables (benchmarks.md), figures (*.svg) and numbers (results.json) into target/bench.
With `--limit 30` it took 36 minutes, without it takes longer. docs/benchmarks.md describes how each system is run.

  --quick             two minutes, once it is built: a check that everything runs, not a measurement
  --only NAME         one workload (hiring, hiring-daily, seminar, seminar-daily, compas, compas-days,
                      compas-deadline), the command as a whole (command), or the peers whose name contains NAME
                      (sqlite, duckdb, flink, ...) beside fairstream and the hand-written loop
  --max-trials N      skip sizes of more than N trials
  --limit SECONDS     stop a peer after this time instead of 100 s
  --baseline FILE     also report how fairstream has changed since an earlier results.json

Optional, if installed:
  Pathway             target/bench/venv/bin/pip install pathway
  Flink               target/bench/venv/bin/pip install apache-flink-libraries; a JDK
  RisingWave          FAIRSTREAM_RISINGWAVE names a running server, as postgresql://USER@HOST:PORT/DATABASE or HOST:PORT
  compas, compas-days  FAIRSTREAM_COMPAS names ProPublica's compas-scores.csv

cargo xtask bench engine | state | adapters | instructions measure other things: cargo xtask help.";

/// Runs the benchmark in `xtask/bench/src/engine`, which parses the options.
pub(crate) fn engine(options: &[&str]) -> anyhow::Result<()> {
    let out = folder()?.join("engine.json");
    let out = out.to_str().context("the path of the workspace is not text")?;
    let mut arguments = vec!["run", "--release", "-p", "bench", "--bin", "bench-engine", "--", "--out", out];
    arguments.extend(options);
    cargo(&arguments, &[])
}

/// Runs the benchmark in `xtask/bench/src/state`, which parses the options.
pub(crate) fn state(options: &[&str]) -> anyhow::Result<()> {
    let mut arguments = vec!["run", "--release", "-p", "bench", "--bin", "bench-state", "--"];
    arguments.extend(options);
    cargo(&arguments, &[])
}

/// Runs the comparison in `xtask/peers`, which parses the options and is a separate workspace.
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
    let mut packages = vec!["duckdb"];
    if std::env::var_os("FAIRSTREAM_RISINGWAVE").is_some() {
        packages.push("psycopg[binary]");
    }
    let python = python::with(&packages)?;
    if let Some(python) = python.as_deref().and_then(Path::to_str) {
        arguments.extend(["--python", python]);
    }
    arguments.extend(options);
    cargo(&arguments, &[("CARGO_TARGET_DIR", target)])
}

/// Folder of the results.
pub(crate) fn folder() -> anyhow::Result<PathBuf> {
    let out = root()?.join("target/bench");
    std::fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
    Ok(out)
}
