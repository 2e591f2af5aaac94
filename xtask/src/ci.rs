//! `cargo xtask ci`: everything that has to pass.

use crate::cargo;

pub(crate) fn run() -> anyhow::Result<()> {
    cargo(&["fmt", "--all", "--check"], &[])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"], &[])?;
    cargo(&["doc", "--workspace", "--no-deps", "--locked"], &[("RUSTDOCFLAGS", "-D warnings")])?;
    cargo(&["test", "--workspace", "--locked"], &[])?;
    crate::instructions::run(&[])
}
