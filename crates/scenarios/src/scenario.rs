//! Description of a scenario, and how it is opened.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use arrow::datatypes::DataType;
use fairstream_core::{
    Adapter, BadOption, OptionDoc, Options, Source, SourceError, SourceFactory, SourceRequest, TimeFormat,
    WantedColumn, parse_duration,
};

use crate::groups::bad;
use crate::{admissions, compas, hiring, seminar};

/// A kind of scenario.
pub struct Scenario {
    pub(crate) adapter: Adapter,
    /// Description, columns and examples, for `--help`.
    pub details: &'static str,
    /// Description of its location; `None` if it is generated and has none.
    pub file: Option<&'static str>,
    /// Format of its times.
    pub time_format: TimeFormat,
    pub(crate) columns: &'static [(&'static str, DataType)],
    pub(crate) begin: fn(&Scenario, &SourceRequest) -> Result<Begun, SourceError>,
}

/// An opened scenario.
pub struct Begun {
    /// Its events.
    pub source: Box<dyn Source>,
    /// Remarks for the user, one line each, such as what was left out and why.
    pub remarks: Vec<String>,
}

/// All scenarios.
pub fn scenarios() -> [Scenario; 4] {
    [hiring::SCENARIO, seminar::SCENARIO, admissions::SCENARIO, compas::SCENARIO]
}

impl Scenario {
    /// The columns of its events, in addition to `time`, with their types.
    pub fn columns(&self) -> Vec<WantedColumn> {
        self.columns.iter().map(|(name, data_type)| WantedColumn::new(*name, data_type.clone())).collect()
    }

    /// Opens it, as [`SourceFactory::open`] does, and returns remarks.
    ///
    /// # Errors
    /// An option cannot be used, or the file cannot be read.
    pub fn begin(&self, request: &SourceRequest) -> Result<Begun, SourceError> {
        let name = self.adapter.name;
        if self.file.is_none() && !request.location.is_empty() {
            let origin = format!("{name}:{}", request.location);
            let cause = format!("{name} is invented, there is nothing to read; write `{name}:` alone");
            return Err(SourceError::Open { origin, cause: cause.into() });
        }
        (self.begin)(self, request)
    }
}

impl SourceFactory for Scenario {
    fn adapter(&self) -> Adapter {
        self.adapter
    }

    fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, SourceError> {
        self.begin(request).map(|begun| begun.source)
    }
}

pub(crate) const SEED: OptionDoc = OptionDoc::new("seed", "1", "the same seed gives the same events");

/// Reads an option as an integer of at least `least`.
pub(crate) fn whole<T: FromStr + PartialOrd + Display>(
    options: &Options,
    key: &str,
    least: T,
    default: T,
) -> Result<T, BadOption> {
    let Some(text) = options.text(key) else { return Ok(default) };
    let number = text.parse().ok().filter(|number| *number >= least);
    number.ok_or_else(|| bad(key, text, format!("it has to be a whole number from {least} on")))
}

/// Reads an option as a duration.
pub(crate) fn duration(options: &Options, key: &str, default: Duration) -> Result<Duration, BadOption> {
    let Some(text) = options.text(key) else { return Ok(default) };
    parse_duration(text).map_err(|error| bad(key, text, error.to_string()))
}

/// The step from one event to the next, in nanoseconds. It is not zero, and so small that `count` steps followed
/// by `rest` are within the range of times.
pub(crate) fn step(every: Duration, count: u64, rest: Duration) -> Result<i64, BadOption> {
    let nanos = i64::try_from(every.as_nanos()).unwrap_or(i64::MAX);
    if nanos == 0 {
        return Err(bad("every", "0s", "it has to be longer than that"));
    }
    let end = u128::from(nanos.unsigned_abs()) * u128::from(count) + rest.as_nanos();
    if i64::try_from(end).is_err() {
        let reason = format!("{count} of them take more than 292 years; set a shorter `every`");
        return Err(bad("applicants", count, reason));
    }
    Ok(nanos)
}
