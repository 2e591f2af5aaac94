//! Loads the specification and opens the sources that arguments name.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};
use fairstream_core::{
    ColumnAliases, Columns, Position, ROW_ORDER, ROW_ORDER_ONLY, Source, SourceContext, SourceError,
    SourceRequest, TimeRange, WantedColumn,
};
use fairstream_engine::{CompiledEngine, ReferenceEngine, Specification};
use fairstream_fairness::{Compiled, Endpoint, FairnessFile, FileError, Problem};
use fairstream_files::{JOURNAL, SORT, Sorted};

use crate::args::{EngineKind, InputArguments};
use crate::joins::{self, Joins};
use crate::median;
use crate::registry::{self, Address};
use crate::sample;
use crate::trust;

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
    /// Inputs that are plugins and were left out, as they are not to be loaded.
    pub(crate) plugins: Vec<Address>,
    /// Why the sinks that the fairness file names cannot be used, if it is not trusted with them.
    pub(crate) untrusted_sinks: Option<FileError>,
    /// What else it would have to be trusted with, before a run.
    pub(crate) untrusted_plugins: Option<FileError>,
}

/// Whether the code of plugins is loaded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plugins {
    Load,
    LeaveOut,
}

/// Reads and parses the specification.
pub(crate) fn monitor(arguments: &InputArguments, plugins: Plugins) -> anyhow::Result<Monitor> {
    let path = &arguments.spec;
    let text = text(path)?;
    let apart = |inputs: Vec<Address>| -> (Vec<Address>, Vec<Address>) {
        inputs.into_iter().partition(|input| plugins == Plugins::LeaveOut && registry::is_plugin(input))
    };
    let given: Vec<Address> = arguments.inputs.iter().map(|input| Address::parse(input)).collect();
    let time_format = arguments.time_format.as_ref().map(|format| format.name().to_owned());
    if !is_fairness_file(path) {
        let spec = Specification::parse(&path.to_string_lossy(), &text)?;
        let wanted = spec.wanted().to_vec();
        let time = arguments.time.clone();
        let (plugins, inputs) = apart(given);
        return Ok(Monitor {
            spec,
            fairness: None,
            inputs,
            sinks: Vec::new(),
            wanted,
            time,
            time_format,
            sort: arguments.sort,
            plugins,
            untrusted_sinks: None,
            untrusted_plugins: None,
        });
    }
    let mut file = FairnessFile::parse(&path.to_string_lossy(), &text)?;
    let of_file = |endpoints: &[Endpoint]| -> Vec<Address> {
        endpoints.iter().map(|endpoint| address(endpoint, path)).collect()
    };
    let sinks = of_file(file.sinks());
    let refused = |problems: Vec<Problem>| (!problems.is_empty()).then(|| file.refused(problems));
    let (mut untrusted_sinks, mut untrusted_plugins) = (None, None);
    let is_own = given.is_empty();
    let inputs = if is_own { of_file(file.sources()) } else { given };
    if !trust::is_trusted(path, &text, &arguments.trust)? {
        untrusted_sinks = refused(trust::of_sinks(&file, path, &sinks));
        let problems = if is_own { trust::of_sources(&file, path, &inputs) } else { Vec::new() };
        let is_left_out = |problem: &Problem| {
            let mut sources = file.sources().iter().zip(&inputs);
            let is_plugin =
                sources.any(|(source, input)| source.at == problem.at && registry::is_plugin(input));
            plugins == Plugins::LeaveOut && is_plugin
        };
        let (left_out, problems): (Vec<Problem>, Vec<Problem>) = problems.into_iter().partition(is_left_out);
        if let Some(error) = refused(problems) {
            return Err(error.into());
        }
        untrusted_plugins = refused(left_out);
    }
    let (plugins, inputs) = apart(inputs);
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
    Ok(Monitor {
        spec,
        fairness: Some(compiled),
        inputs,
        sinks,
        wanted,
        time,
        time_format,
        sort,
        plugins,
        untrusted_sinks,
        untrusted_plugins,
    })
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

    /// Reads standard input through a journal.
    pub(crate) fn keep_journal(&mut self, folder: &Path) -> anyhow::Result<()> {
        let Some(input) = self.inputs.iter_mut().find(|input| input.location == "-") else {
            bail!("--journal is for standard input, and no input is `-`");
        };
        input.options.set(JOURNAL.name, folder.to_string_lossy());
        Ok(())
    }

    /// The inputs with events, each of which is a source.
    pub(crate) fn event_inputs(&self) -> anyhow::Result<Vec<Address>> {
        let events = self.inputs.iter().filter(|input| !joins::is_table(input));
        self.grouped(events.cloned().collect())
    }

    /// Opens every input with events.
    pub(crate) fn sources(
        &self,
        time_range: TimeRange,
        context: &SourceContext,
        joins: &Joins,
    ) -> anyhow::Result<Vec<Box<dyn Source>>> {
        let inputs = self.event_inputs()?;
        let from_the_start = vec![None; inputs.len()];
        self.sources_from(&inputs, from_the_start, time_range, context, joins)
    }

    /// The same, each at a position to resume from if it has one.
    pub(crate) fn sources_from(
        &self,
        inputs: &[Address],
        positions: Vec<Option<Position>>,
        time_range: TimeRange,
        context: &SourceContext,
        joins: &Joins,
    ) -> anyhow::Result<Vec<Box<dyn Source>>> {
        if self.inputs.iter().filter(|input| input.location == "-").count() > 1 {
            bail!("standard input is read twice");
        }
        let inputs = inputs.iter().zip(positions);
        let sources = inputs.map(|(input, resume)| joins.open(self, input, resume, time_range, context));
        let sources = sources.collect::<anyhow::Result<Vec<_>>>()?;
        joins.check(&sources)?;
        Ok(sources)
    }

    /// Inputs, each of which becomes a source with a thread of its own. Where there are many, files of one kind that follow
    /// one another become one source. That changes neither their order nor their rows; only the format of their times has
    /// to be the same.
    fn grouped(&self, inputs: Vec<Address>) -> anyhow::Result<Vec<Address>> {
        /// So few inputs are sources of their own.
        const FEW: usize = 64;
        const MOST: usize = 1024;
        let kind = |address: &Address| -> anyhow::Result<Option<&'static str>> {
            let mut address = address.clone();
            let kind = registry::source_for(&address)?;
            address.options.set_default("time", self.time.as_deref().unwrap_or("time"));
            // Rows that are taken in their order are counted in each input.
            let is_by_row =
                [ROW_ORDER, ROW_ORDER_ONLY].contains(&address.options.text("time").unwrap_or_default());
            let is_file = || Path::new(&address.location).metadata().is_ok_and(|meta| meta.is_file());
            let is_grouped = kind.takes_several_files() && !is_by_row && is_file();
            Ok(is_grouped.then(|| kind.adapter().name))
        };
        if inputs.len() <= FEW {
            return Ok(inputs);
        }
        let mut groups: Vec<(Option<&'static str>, Address)> = Vec::new();
        for input in inputs {
            let kind = kind(&input)?;
            match groups.last_mut() {
                Some((last, group)) if kind.is_some() && *last == kind && group.options == input.options => {
                    group.others.push(input.location);
                }
                _ => groups.push((kind, input)),
            }
        }
        if groups.len() > MOST {
            bail!(
                "there are {} inputs that are read at the same time, more than {MOST}: put files of one kind next to each \
                 other, or into a folder",
                groups.len()
            );
        }
        Ok(groups.into_iter().map(|(_, group)| group).collect())
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
        resume: Option<Position>,
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
            others: address.others,
            options: address.options,
            wanted: wanted.to_vec(),
            time_range,
            // Rows that are sorted are all read again.
            resume: resume.clone().filter(|_| !sort),
            context: context.clone(),
        };
        let source = ColumnAliases::open(&*kind, &request)?;
        Ok(if sort { Box::new(Sorted::new(source, context.clone(), resume.as_ref())?) } else { source })
    }

    /// The columns that the specification reads, in those sources.
    pub(crate) fn columns(&self, sources: &[Box<dyn Source>]) -> anyhow::Result<Columns> {
        Ok(Columns::bind(&self.wanted, sources)?)
    }
}

pub(crate) fn is_fairness_file(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "toml")
}

/// Reads a file that is no larger than that. What is endless, such as a device, is not read further.
pub(crate) fn bounded(path: &Path, most: u64) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut file = std::fs::File::open(path)?;
    let size = file.metadata()?.len();
    if size <= most {
        file.by_ref().take(most + 1).read_to_end(&mut bytes)?;
    }
    match size.max(bytes.len() as u64) {
        size if size > most => {
            let size = if size == most + 1 { "larger".to_owned() } else { format!("{size} bytes, more") };
            bail!("it is {size} than the {most} bytes that are read; is it another file?")
        }
        _ => Ok(bytes),
    }
}

pub(crate) fn text(path: &Path) -> anyhow::Result<String> {
    /// More than anyone writes, and little enough to be parsed.
    const MOST: u64 = 1 << 20;
    let bytes = bounded(path, MOST).with_context(|| format!("cannot read {}", path.display()))?;
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
    Address {
        kind: endpoint.kind.clone(),
        location,
        others: Vec::new(),
        options: endpoint.options.iter().cloned().collect(),
    }
}
