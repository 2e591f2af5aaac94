//! From arguments to an open specification, open sources and the columns between them.

use std::path::Path;

use anyhow::{Context, bail};
use fairstream_core::{
    Columns, Renames, Source, SourceContext, SourceError, SourceRequest, Span, WantedColumn,
};
use fairstream_engine::{CompiledEngine, ReferenceEngine, Specification};
use fairstream_files::{SORT, Sorted};

use crate::args::{EngineKind, InputArguments};
use crate::kinds::{self, Address};

/// Reads and parses the specification, and makes sure that an engine can evaluate it.
pub(crate) fn specification(path: &Path, engine: EngineKind) -> anyhow::Result<Specification> {
    if path.extension().is_some_and(|extension| extension == "toml") {
        bail!(
            "{}: a specification is RTLola text (.lola); fairness files (.toml) are not read yet",
            path.display()
        );
    }
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let Ok(text) = String::from_utf8(bytes) else {
        bail!("cannot read {}: it is not UTF-8 text", path.display());
    };
    let spec = Specification::parse(&path.to_string_lossy(), &text)?;
    let check = match engine {
        EngineKind::Compiled => CompiledEngine::check(&spec),
        EngineKind::Reference => ReferenceEngine::check(&spec),
    };
    check.with_context(|| path.display().to_string())?;
    Ok(spec)
}

/// Opens every input.
pub(crate) fn sources(
    arguments: &InputArguments,
    wanted: &[WantedColumn],
    span: Span,
    context: &SourceContext,
) -> anyhow::Result<Vec<Box<dyn Source>>> {
    if arguments.inputs.iter().filter(|input| Address::parse(input).location == "-").count() > 1 {
        bail!("standard input is read twice");
    }
    let mut sources = Vec::new();
    for input in &arguments.inputs {
        let mut address = Address::parse(input);
        if let Some(time) = &arguments.time {
            address.options.set_default("time", time);
        }
        if let Some(format) = arguments.time_format {
            address.options.set_default("time_format", format.name());
        }
        if arguments.sort {
            address.options.set_default(SORT.name, "true");
        }
        let kind = kinds::source_for(&address)?;
        let sort = address.options.parse(SORT.name, false);
        let sort = sort.map_err(|bad| SourceError::Option { origin: address.location.to_owned(), bad })?;
        let source = Renames::open(
            &*kind,
            &SourceRequest {
                location: address.location.to_owned(),
                options: address.options,
                wanted: wanted.to_vec(),
                span,
                resume: None,
                context: context.clone(),
            },
        )?;
        sources.push(if sort { Box::new(Sorted::new(source, context.clone(), None)?) } else { source });
    }
    Ok(sources)
}

/// The columns that the specification reads, in those sources.
pub(crate) fn columns(spec: &Specification, sources: &[Box<dyn Source>]) -> anyhow::Result<Columns> {
    Ok(Columns::bind(spec.wanted(), sources)?)
}
