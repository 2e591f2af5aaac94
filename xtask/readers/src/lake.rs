//! Measures the memory that reading a large folder of Parquet files takes, with and without an engine. The
//! specification of the engine keeps only a number for each gender.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::json;

use crate::data;

/// Rows per file.
const ROWS: usize = 4_000_000;

/// Writes that many gigabytes of Parquet, reads them in separate processes, and deletes them.
pub(crate) fn measure(folder: &Path, gigabytes: u64) -> anyhow::Result<serde_json::Value> {
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder)?;
    let (mut bytes, mut files) = (0, 0);
    while bytes < gigabytes << 30 {
        let path = folder.join(format!("part-{files:04}.parquet"));
        data::parquet(File::create(&path)?, files * ROWS, ROWS)?;
        bytes += path.metadata()?.len();
        files += 1;
    }
    println!("lake: {files} files, {} rows, {bytes} bytes", files * ROWS);
    let (alone, with_engine) = (in_a_process("read-lake", folder), in_a_process("count-lake", folder));
    std::fs::remove_dir_all(folder)?;
    let (alone, with_engine) = (alone?, with_engine?);
    Ok(json!({
        "files": files,
        "rows": files * ROWS,
        "bytes": bytes,
        "source_alone": alone,
        "with_engine": with_engine,
    }))
}

/// Reads a folder in a separate process of this program, and returns its peak memory.
fn in_a_process(how: &str, folder: &Path) -> anyhow::Result<serde_json::Value> {
    let output = Command::new(std::env::current_exe()?).arg(how).arg(folder).output()?;
    if !output.status.success() {
        bail!("{how}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    print!("{how}: {text}");
    let peak = text.split_whitespace().next().context("its output does not begin with its memory")?;
    Ok(json!({ "peak_kib": peak.parse::<u64>()?, "output": text.trim() }))
}

/// Reads a folder, and prints the peak memory.
pub(crate) fn read(read: impl FnOnce() -> anyhow::Result<usize>) -> anyhow::Result<()> {
    let start = std::time::Instant::now();
    let rows = read()?;
    let seconds = start.elapsed().as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    let peak = peak.trim().trim_end_matches(" kB");
    println!("{peak} KiB peak memory, for {rows} rows in {seconds:.1} s");
    Ok(())
}
