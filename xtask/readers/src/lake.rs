//! A folder of Parquet files that is larger than memory should be: what it takes to read it. Without an engine,
//! which keeps as much as its specification asks for.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use serde_json::json;

use crate::data;
use crate::ours;

/// Rows of a file.
const ROWS: usize = 4_000_000;

/// Writes that many gigabytes of Parquet, reads them in a process of its own, and deletes them.
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
    let output = Command::new(std::env::current_exe()?).arg("read-lake").arg(folder).output()?;
    std::fs::remove_dir_all(folder)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    print!("{text}");
    let words: Vec<&str> = text.split_whitespace().collect();
    let peak: u64 = words.first().context("it says nothing of its memory")?.parse()?;
    Ok(json!({ "files": files, "rows": files * ROWS, "bytes": bytes, "peak_kib": peak, "said": text.trim() }))
}

/// Reads a folder, and says how much memory that took.
pub(crate) fn read(folder: &Path) -> anyhow::Result<()> {
    let start = std::time::Instant::now();
    let rows = ours::read("parquet", folder)?;
    let seconds = start.elapsed().as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    let peak = peak.trim().trim_end_matches(" kB");
    println!("{peak} KiB at most, for {rows} rows in {seconds:.1} s");
    Ok(())
}
