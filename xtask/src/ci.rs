//! `cargo xtask ci`: everything that must pass before a commit.

use std::process::Command;

use crate::cargo;

pub(crate) fn run() -> anyhow::Result<()> {
    cargo(&["fmt", "--all", "--check"], &[])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"], &[])?;
    cargo(&["doc", "--workspace", "--no-deps", "--locked"], &[("RUSTDOCFLAGS", "-D warnings")])?;
    cargo(&["test", "--workspace", "--locked"], &[])?;
    crate::dependencies::run()?;
    crate::corpus::run()?;
    live_capture()?;
    crate::instructions::run(&[])
}

/// Tests live capture, which needs libpcap.
fn live_capture() -> anyhow::Result<()> {
    let found = Command::new("pcap-config").arg("--libs").output();
    if !found.is_ok_and(|found| found.status.success()) {
        println!("SKIPPED: live capture, as libpcap is not installed (`apt install libpcap-dev`)");
        return Ok(());
    }
    let feature = ["--features", "fairstream-pcap/live-capture", "--locked"];
    let pcap = ["-p", "fairstream-pcap", "--all-targets"];
    cargo(&[&["clippy"], &feature[..], &pcap, &["--", "-D", "warnings"]].concat(), &[])?;
    cargo(&[&["test", "--workspace"], &feature[..], &["--test", "live"]].concat(), &[])
}
