//! `cargo xtask bench adapters`: the speed of each source, alone and with an engine, compared with the fastest
//! readers of its format in one run.

mod data;
mod lake;
mod measure;
mod ours;
mod python;
mod theirs;

use std::path::PathBuf;

use anyhow::bail;

use crate::measure::{Contestant, Table};

/// Formats by file extension.
pub(crate) const FORMATS: [&str; 5] = ["csv", "jsonl", "parquet", "arrow", "pcap"];

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (mut quick, mut lake, mut out, mut python, mut only) = (false, None, None, None, None);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| anyhow::anyhow!("{argument} needs a value"));
        match argument.as_str() {
            "--quick" => quick = true,
            "--lake" => lake = Some(value()?.parse::<u64>()?),
            "--out" => out = Some(PathBuf::from(value()?)),
            "--python" => python = Some(PathBuf::from(value()?)),
            "--only" => only = Some(value()?),
            "read-lake" => {
                let folder = PathBuf::from(value()?);
                return lake::read(|| ours::read("parquet", &folder));
            }
            "count-lake" => {
                let folder = PathBuf::from(value()?);
                return lake::read(|| ours::count_rows(&folder));
            }
            other => {
                bail!("there is no option `{other}`; there are --quick, --only FORMAT and --lake GIGABYTES")
            }
        }
    }
    let out = out.unwrap_or_else(|| PathBuf::from("target/bench"));
    let (rows, rounds) = if quick { (200_000, 3) } else { (2_000_000, 7) };
    let folder = out.join("adapters");
    std::fs::create_dir_all(&folder)?;
    let mut table = Table::default();
    for format in FORMATS.into_iter().filter(|format| only.as_deref().is_none_or(|only| only == *format)) {
        let path = folder.join(format!("events.{format}"));
        data::write(format, &path, rows)?;
        let mut contestants: Vec<Contestant> = Vec::new();
        contestants.extend(ours::contestants(format, &path)?);
        contestants.extend(theirs::contestants(format, &path));
        match python.as_ref() {
            Some(python) => contestants.extend(python::contestants(python, format, &path)),
            None => {
                table.missing.push(format!("{format}: DuckDB and Polars, as no Python with them was given"))
            }
        }
        table.measure(format, rows, rounds, contestants);
        std::fs::remove_file(&path)?;
    }
    println!("{}", table.text());
    if let Some(gigabytes) = lake {
        table.lake = Some(lake::measure(&folder.join("lake"), gigabytes)?);
    }
    let path = out.join("adapters.json");
    std::fs::write(&path, table.json())?;
    println!("written to {}", path.display());
    Ok(())
}
