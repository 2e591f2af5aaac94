//! `cargo xtask corpus`: public tables through `init`, `check` and `report`, with every count compared with one of its own.

use std::process::Command;

use anyhow::{Context, bail};

use crate::{cargo, root};

pub(crate) fn run() -> anyhow::Result<()> {
    let has_python =
        Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    if !has_python {
        println!("SKIPPED: the public tables, as there is no python3 to fetch and count them");
        return Ok(());
    }
    // Of the whole workspace, so that nothing is built again with other features.
    cargo(&["build", "--workspace", "--bin", "fairstream", "--locked"], &[])?;
    let root = root()?;
    let status = Command::new("python3")
        .arg(root.join("xtask/corpus/corpus.py"))
        .args([root.join("target/debug/fairstream"), root.join("target/corpus")])
        .status()
        .context("cannot start python3")?;
    if !status.success() {
        bail!("a table does not have the counts that it should have");
    }
    Ok(())
}
