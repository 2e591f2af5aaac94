//! Runs the readers in rotation, and reports their speed.

use std::time::Instant;

use fairstream_report::grouped;
use serde_json::json;

/// A reader: a function that reads a file and returns the number of rows.
pub(crate) struct Contestant {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) read: Box<dyn Fn() -> anyhow::Result<usize>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A fairstream source alone.
    Source,
    /// A fairstream source with an engine.
    Engine,
    /// A decoder that the source is compared with.
    Decoder,
    /// Another program.
    Program,
}

impl Contestant {
    pub(crate) fn new(
        name: &str,
        kind: Kind,
        read: impl Fn() -> anyhow::Result<usize> + 'static,
    ) -> Contestant {
        Contestant { name: name.to_owned(), kind, read: Box::new(read) }
    }
}

struct Line {
    format: String,
    name: String,
    kind: Kind,
    /// Rows per second in each round.
    rates: Vec<f64>,
}

impl Line {
    fn median(&self) -> f64 {
        let mut rates = self.rates.clone();
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    }
}

#[derive(Default)]
pub(crate) struct Table {
    lines: Vec<Line>,
    /// Readers that could not be run, with the reason.
    pub(crate) missing: Vec<String>,
    pub(crate) lake: Option<serde_json::Value>,
}

impl Table {
    /// Runs the readers in rotation, so that other load on the machine affects all of them equally.
    pub(crate) fn measure(&mut self, format: &str, rows: usize, rounds: usize, contestants: Vec<Contestant>) {
        let mut rates: Vec<Vec<f64>> = contestants.iter().map(|_| Vec::new()).collect();
        let mut failed: Vec<Option<String>> = contestants.iter().map(|_| None).collect();
        for _ in 0..rounds {
            for (index, contestant) in contestants.iter().enumerate() {
                if failed[index].is_some() {
                    continue;
                }
                let start = Instant::now();
                match (contestant.read)() {
                    Ok(read) if read == rows => {
                        rates[index].push(rows as f64 / start.elapsed().as_secs_f64())
                    }
                    Ok(read) => failed[index] = Some(format!("it read {read} rows of {rows}")),
                    Err(error) => failed[index] = Some(format!("{error:#}")),
                }
            }
        }
        for ((contestant, rates), failed) in contestants.into_iter().zip(rates).zip(failed) {
            match failed {
                Some(reason) => self.missing.push(format!("{format}: {}: {reason}", contestant.name)),
                None => self.lines.push(Line {
                    format: format.to_owned(),
                    name: contestant.name,
                    kind: contestant.kind,
                    rates,
                }),
            }
        }
    }

    /// Speed of the source relative to the decoder.
    fn ratio(&self, line: &Line) -> Option<f64> {
        let of = |kind: Kind| {
            self.lines.iter().filter(move |other| other.format == line.format && other.kind == kind)
        };
        let source = of(Kind::Source).next()?.median();
        Some(match line.kind {
            Kind::Source => source / of(Kind::Decoder).map(Line::median).max_by(f64::total_cmp)?,
            _ => source / line.median(),
        })
    }

    pub(crate) fn text(&self) -> String {
        let mut text = format!("{:<9} {:<46} {:>14}   source is\n", "format", "reader", "rows/s");
        for line in &self.lines {
            let ratio = self.ratio(line).map(|ratio| match line.kind {
                Kind::Source if ratio < 0.7 => format!("{ratio:.2} of the fastest decoder: below 0.7"),
                Kind::Source => format!("{ratio:.2} of the fastest decoder"),
                _ => format!("{ratio:.2}×"),
            });
            text += &format!(
                "{:<9} {:<46} {:>14}   {}\n",
                line.format,
                line.name,
                grouped(line.median() as u64),
                ratio.unwrap_or_default()
            );
        }
        for missing in &self.missing {
            text += &format!("missing   {missing}\n");
        }
        text
    }

    pub(crate) fn json(&self) -> String {
        let lines: Vec<_> = self
            .lines
            .iter()
            .map(|line| {
                json!({
                    "format": line.format,
                    "name": line.name,
                    "kind": format!("{:?}", line.kind),
                    "rows_per_second": line.median(),
                    "rounds": line.rates,
                    "source_ratio": self.ratio(line),
                })
            })
            .collect();
        format!("{:#}\n", json!({ "results": lines, "missing": self.missing, "lake": self.lake }))
    }
}
