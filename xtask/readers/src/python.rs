//! DuckDB and Polars from Python: one process per format, which reads the file on request.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;

use anyhow::{Context, bail};

use crate::measure::{Contestant, Kind};

const PROGRAM: &str = include_str!("readers.py");

struct Reader {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

pub(crate) fn contestants(python: &Path, format: &str, path: &Path) -> Vec<Contestant> {
    let names: &[&str] = match format {
        "csv" | "jsonl" | "parquet" => &["duckdb", "polars"],
        "arrow" => &["polars"],
        _ => &[],
    };
    names.iter().map(|name| contestant(python, name, format, path)).collect()
}

fn contestant(python: &Path, name: &'static str, format: &str, path: &Path) -> Contestant {
    let reader: Rc<RefCell<Option<Reader>>> = Rc::default();
    let (python, format, path) = (python.to_owned(), format.to_owned(), path.to_owned());
    Contestant::new(&format!("{name}, one thread"), Kind::Program, move || {
        let mut reader = reader.borrow_mut();
        if reader.is_none() {
            *reader = Some(Reader::start(&python, name, &format, &path)?);
        }
        let reader = reader.as_mut().context("a reader")?;
        reader.input.write_all(b"read\n")?;
        let mut line = String::new();
        reader.output.read_line(&mut line)?;
        line.trim().parse().with_context(|| format!("{name} printed {line:?}"))
    })
}

impl Reader {
    fn start(python: &Path, name: &str, format: &str, path: &Path) -> anyhow::Result<Reader> {
        let mut child = Command::new(python)
            .args(["-c", PROGRAM, name, format])
            .arg(path)
            .env("POLARS_MAX_THREADS", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| python.display().to_string())?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("no pipes")
        };
        let mut reader = Reader { child, input, output: BufReader::new(output) };
        let mut ready = String::new();
        reader.output.read_line(&mut ready)?;
        if ready.trim() != "ready" {
            bail!("it cannot be imported");
        }
        Ok(reader)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
