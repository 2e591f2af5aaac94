//! Describes the machine and the versions, so that two reports can be compared.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// Processor, versions and commit.
pub fn describe() -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).unwrap_or_default();
    let changed = output(Command::new("git").args(["status", "--porcelain"]).current_dir(&root));
    json!({
        "cpu": cpu(),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "rustc": output(Command::new("rustc").arg("--version")),
        "commit": output(Command::new("git").args(["rev-parse", "HEAD"]).current_dir(&root)),
        "uncommitted_changes": changed.is_none_or(|changed| !changed.is_empty()),
        "fairstream": env!("CARGO_PKG_VERSION"),
        "rtlola-interpreter": version(&lock, "rtlola-interpreter"),
        "arrow": version(&lock, "arrow"),
    })
}

/// Load averages over one, five and fifteen minutes.
pub fn load() -> Option<String> {
    let load = std::fs::read_to_string("/proc/loadavg").ok()?;
    Some(load.split(' ').take(3).collect::<Vec<_>>().join(" "))
}

fn cpu() -> Option<String> {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name"))?;
    Some(model.trim_start_matches([' ', '\t', ':']).to_owned())
}

fn output(command: &mut Command) -> Option<String> {
    let done = command.output().ok().filter(|done| done.status.success())?;
    Some(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

/// The version of a package in a lock file.
pub fn version(lock: &str, package: &str) -> Option<String> {
    let (_, rest) = lock.split_once(&format!("name = \"{package}\"\nversion = \""))?;
    rest.split('"').next().map(str::to_owned)
}
