//! A fairness file → RTLola text, in the shape of the paper: trials, counts, estimates, triggers.
//!
//! Two layers that never mix. `trials` is keyed by the trial and turns events into resolved trials;
//! `counts` and `estimate` add them up for each group and stratum. `scope` holds what the streams over
//! the same trials have in common, `facts` what the metrics ask of a trial. `compilation` writes the text with them.

mod bind;
mod blame;
mod compilation;
mod counts;
mod estimate;
mod facts;
mod functions;
mod inputs;
mod names;
mod rules;
mod scope;
mod streams;
mod text;
mod trials;

use std::ops::Range;

use fairstream_core::WantedColumn;

use self::blame::Blame;
use self::compilation::CompiledLayers;
pub use self::inputs::{BoundInput, InputOrigin};
pub(crate) use self::streams::{CountRole, CountStream, TrialRate, TrialStreams};
pub use self::streams::{JudgedStreams, RateStreams};
use self::text::SourceMapping;
use crate::FileError;
use crate::expression::Expression;
use crate::file::{EventColumn, FairnessFile};
use crate::judge::Rule;

/// A compiled fairness file.
#[derive(Clone, Debug)]
pub struct Compiled {
    file: FairnessFile,
    /// Columns whose types the source knows.
    of_source: Vec<EventColumn>,
    rtlola: String,
    mappings: Vec<SourceMapping>,
    inputs: Vec<BoundInput>,
    count_streams: Vec<CountStream>,
    rules: Vec<Rule>,
    streams: Vec<RateStreams>,
    trials: Vec<TrialStreams>,
}

impl Compiled {
    /// The RTLola text.
    pub fn rtlola(&self) -> &str {
        &self.rtlola
    }

    /// Compiles the file for runs that need alarms only: trials and counts, and a stream that triggers checks in place
    /// of estimates, gaps and triggers. The judge raises the same alarms. Only streams that cannot fail are omitted, so
    /// that errors are the same. An engine treats it as another specification, so snapshots are not interchangeable.
    ///
    /// # Errors
    /// None, since the file has been compiled before.
    pub fn for_alarms(&self) -> Result<Compiled, FileError> {
        self.file.compile_to(CompiledLayers::Counts, &self.of_source)
    }

    /// The file it was compiled from.
    pub fn file(&self) -> &FairnessFile {
        &self.file
    }

    /// The inputs of the text, and where their values come from.
    pub fn inputs(&self) -> &[BoundInput] {
        &self.inputs
    }

    /// The columns that sources must have, in their order.
    pub fn columns(&self) -> Vec<WantedColumn> {
        let mut columns: Vec<WantedColumn> = Vec::new();
        for column in self.inputs.iter().filter_map(BoundInput::source_column) {
            if !columns.iter().any(|known| known.name == column.name) {
                columns.push(column);
            }
        }
        columns
    }

    /// Whether due trials are counted at events, which must happen before the event: it may open another trial of the
    /// same key. [`JudgedEngine`](crate::JudgedEngine) supplies a row without values for that.
    pub(crate) fn counts_before_events(&self) -> bool {
        self.file.trial.horizon.is_some() && self.file.metrics.iter().any(|metric| metric.check.is_none())
    }

    /// Whether counted trials are final. Evidence requires that.
    pub fn is_final(&self) -> bool {
        self.file.trial.is_final()
    }

    /// The rules for the judge.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The streams of every rate, in the order of the metrics in the file.
    pub fn streams(&self) -> &[RateStreams] {
        &self.streams
    }

    pub(crate) fn count_streams(&self) -> &[CountStream] {
        &self.count_streams
    }

    pub(crate) fn trials(&self) -> &[TrialStreams] {
        &self.trials
    }

    /// An expression whose values are written by streams and may be keys of trials, as it reads a column with keys. The
    /// values of a condition are true and false, and no keys.
    pub(crate) fn expression_of_keys(&self) -> Option<&str> {
        let keys = self.file.key_columns();
        let mut written = self.file.values_of_streams();
        let reads_key =
            |expression: &&Expression| expression.names.iter().any(|name| keys.contains(&name.text));
        written.find(reads_key).map(|expression| expression.text.as_str())
    }

    /// Maps an error of the RTLola frontend back to the fairness file; `None` if no part of it comes from there.
    pub fn blame(&self, errors: &[(Range<usize>, String)]) -> Option<FileError> {
        let Compiled { file, rtlola, mappings, inputs, .. } = self;
        let problems = Blame { file, rtlola, mappings, inputs }.problems(errors);
        (!problems.is_empty()).then(|| self.file.refused(problems))
    }
}

impl FairnessFile {
    /// Compiles the file to RTLola. `of_source` are columns that the file does not give a type, if the
    /// source knows them.
    ///
    /// # Errors
    /// A column does not exist, or another problem that shows only when columns are known.
    pub fn compile(&self, of_source: &[EventColumn]) -> Result<Compiled, FileError> {
        self.compile_to(CompiledLayers::Whole, of_source)
    }
}
