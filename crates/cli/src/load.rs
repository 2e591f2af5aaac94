//! Loads the specification and opens the sources that arguments name.

use std::path::Path;

use anyhow::{Context, bail};
use fairstream_core::{
    ColumnAliases, Columns, ROW_ORDER, ROW_ORDER_ONLY, Source, SourceContext, SourceError, SourceRequest,
    TimeRange, WantedColumn,
};
use fairstream_engine::{CompiledEngine, ReferenceEngine, Specification};
use fairstream_fairness::{Compiled, Endpoint, FairnessFile};
use fairstream_files::{SORT, Sorted};

use crate::args::{EngineKind, InputArguments};
use crate::joins::{self, Joins};
use crate::median;
use crate::registry::{self, Address};
use crate::sample;

/// A specification and its inputs.
pub(crate) struct Monitor {
    pub(crate) spec: Specification,
    /// The compiled fairness file, if the specification is one.
    pub(crate) fairness: Option<Compiled>,
    /// Inputs, from the arguments or else from the fairness file.
    pub(crate) inputs: Vec<Address>,
    /// Sinks that the fairness file names.
    pub(crate) sinks: Vec<Address>,
    /// The columns that sources must have.
    pub(crate) wanted: Vec<WantedColumn>,
    time: Option<String>,
    time_format: Option<String>,
    /// Whether inputs are sorted by time first.
    sort: bool,
}

/// Reads and parses the specification.
pub(crate) fn monitor(arguments: &InputArguments) -> anyhow::Result<Monitor> {
    let path = &arguments.spec;
    let text = text(path)?;
    let given: Vec<Address> = arguments.inputs.iter().map(|input| Address::parse(input)).collect();
    let time_format = arguments.time_format.as_ref().map(|format| format.name().to_owned());
    if !is_fairness_file(path) {
        let spec = Specification::parse(&path.to_string_lossy(), &text)?;
        let wanted = spec.wanted().to_vec();
        let time = arguments.time.clone();
        return Ok(Monitor {
            spec,
            fairness: None,
            inputs: given,
            sinks: Vec::new(),
            wanted,
            time,
            time_format,
            sort: arguments.sort,
        });
    }
    let mut file = FairnessFile::parse(&path.to_string_lossy(), &text)?;
    let of_file = |endpoints: &[Endpoint]| -> Vec<Address> {
        endpoints.iter().map(|endpoint| address(endpoint, path)).collect()
    };
    let inputs = if given.is_empty() { of_file(file.sources()) } else { given };
    let sinks = of_file(file.sinks());
    // A column that the file declares has no times.
    let is_order = file.is_in_order_of_rows() && file.has_row_column();
    let time = if is_order { Some(ROW_ORDER_ONLY) } else { file.time() };
    let time = arguments.time.clone().or_else(|| time.map(str::to_owned));
    let time_format = time_format.or_else(|| file.time_format().map(str::to_owned));
    median::set(&mut file, &inputs)?;
    // Types that the file does not state are inferred from the inputs.
    let is_declared = file.undeclared_columns().is_empty();
    let known = if is_declared {
        Vec::new()
    } else {
        sample::columns(&inputs, time.as_deref(), time_format.as_deref())?
    };
    let (compiled, spec) = compile(&file, &known)?;
    let wanted = compiled.columns();
    let sort = arguments.sort || file.is_sorted_first();
    Ok(Monitor { spec, fairness: Some(compiled), inputs, sinks, wanted, time, time_format, sort })
}

/// Compiles a fairness file, and checks the result with the RTLola frontend.
pub(crate) fn compile(
    file: &FairnessFile,
    known: &[fairstream_fairness::EventColumn],
) -> anyhow::Result<(Compiled, Specification)> {
    specified(file.compile(known)?)
}

/// Parses the RTLola text of a compiled fairness file.
fn specified(compiled: Compiled) -> anyhow::Result<(Compiled, Specification)> {
    let title = format!("{} (compiled)", compiled.file().title());
    match Specification::parse(&title, compiled.rtlola()) {
        Ok(spec) => Ok((compiled, spec)),
        // The error is in an expression of the user, or else in the generated text.
        Err(error) => match compiled.blame(&error.places()) {
            Some(blamed) => Err(blamed.into()),
            None => Err(error.into()),
        },
    }
}

impl Monitor {
    /// Checks that an engine can evaluate it.
    pub(crate) fn check(&self, engine: EngineKind, path: &Path) -> anyhow::Result<()> {
        let check = match engine {
            EngineKind::Compiled => CompiledEngine::check(&self.spec),
            EngineKind::Reference => ReferenceEngine::check(&self.spec),
        };
        check.with_context(|| path.display().to_string())
    }

    /// Recompiles a fairness file for a run whose sinks read alarms only, without the streams that only other sinks
    /// need.
    pub(crate) fn for_alarms(mut self) -> anyhow::Result<Monitor> {
        if let Some(fairness) = &self.fairness {
            let (fairness, spec) = specified(fairness.for_alarms()?)?;
            (self.fairness, self.spec) = (Some(fairness), spec);
        }
        Ok(self)
    }

    /// Opens every input with events.
    pub(crate) fn sources(
        &self,
        time_range: TimeRange,
        context: &SourceContext,
        joins: &Joins,
    ) -> anyhow::Result<Vec<Box<dyn Source>>> {
        if self.inputs.iter().filter(|input| input.location == "-").count() > 1 {
            bail!("standard input is read twice");
        }
        let events = self.inputs.iter().filter(|input| !joins::is_table(input));
        let sources = events.map(|input| joins.open(self, input, time_range, context));
        let sources = sources.collect::<anyhow::Result<Vec<_>>>()?;
        joins.check(&sources)?;
        Ok(sources)
    }

    /// References that the first rows of the inputs do not have, in words. Inputs that cannot be read twice are left out.
    pub(crate) fn unseen_references(&self) -> Vec<String> {
        let Some(fairness) = self.fairness.as_ref().filter(|fairness| fairness.has_references()) else {
            return Vec::new();
        };
        let (time, time_format) = (self.time.as_deref(), self.time_format.as_deref());
        fairness.unseen_references(&sample::first_rows(&self.inputs, time, time_format))
    }

    /// Opens one input for these columns.
    pub(crate) fn open(
        &self,
        input: &Address,
        wanted: &[WantedColumn],
        time_range: TimeRange,
        context: &SourceContext,
    ) -> anyhow::Result<Box<dyn Source>> {
        let mut address = input.clone();
        let kind = registry::source_for(&address)?;
        // Scenarios and plugins do not take these options.
        let takes = |key: &str| kind.adapter().options.iter().any(|option| option.name == key);
        for (key, value) in [("time", &self.time), ("time_format", &self.time_format)] {
            if let Some(value) = value.as_ref().filter(|_| takes(key)) {
                address.options.set_default(key, value);
            }
        }
        if self.time.as_deref() == Some(ROW_ORDER) && !takes("time") {
            bail!(
                "{}: `--time row` takes rows in their order, but those of `{}` have times of their own",
                if address.location.is_empty() { kind.adapter().name } else { &address.location },
                kind.adapter().name
            );
        }
        if self.sort {
            address.options.set_default(SORT.name, "true");
        }
        let sort = address.options.parse(SORT.name, false);
        let sort = sort.map_err(|bad| SourceError::Option { origin: address.location.clone(), bad })?;
        let request = SourceRequest {
            location: address.location,
            options: address.options,
            wanted: wanted.to_vec(),
            time_range,
            resume: None,
            context: context.clone(),
        };
        let source = ColumnAliases::open(&*kind, &request)?;
        Ok(if sort { Box::new(Sorted::new(source, context.clone(), None)?) } else { source })
    }

    /// The columns that the specification reads, in those sources.
    pub(crate) fn columns(&self, sources: &[Box<dyn Source>]) -> anyhow::Result<Columns> {
        Ok(Columns::bind(&self.wanted, sources)?)
    }
}

pub(crate) fn is_fairness_file(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "toml")
}

pub(crate) fn text(path: &Path) -> anyhow::Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(_) => bail!("cannot read {}: it is not UTF-8 text", path.display()),
    }
}

/// The address of a `[[source]]` or `[[sink]]` of a fairness file. Paths are relative to the file.
fn address(endpoint: &Endpoint, file: &Path) -> Address {
    let is_path = !["-", "console"].contains(&endpoint.path.as_str());
    let folder = file.parent().filter(|folder| is_path && !folder.as_os_str().is_empty());
    let location = match folder {
        Some(folder) => folder.join(&endpoint.path).to_string_lossy().into_owned(),
        None => endpoint.path.clone(),
    };
    Address { kind: endpoint.kind.clone(), location, options: endpoint.options.iter().cloned().collect() }
}
