//! The outputs of a run: sinks and the list of bad rows. All are checked before any is opened, so that a mistake does
//! not destroy a file.

use std::path::{Path, PathBuf};

use anyhow::bail;
use fairstream_core::{BadRowPolicy, Selection, Sink, SinkRequest};

use crate::args::{OnBadRow, RunArguments};
use crate::bad_rows;
use crate::load::Monitor;
use crate::records;
use crate::registry::{self, Address, RunContext};

/// Opens every sink, and then the list of bad rows if there is one. None may be among the files in `read`.
pub(crate) fn open(
    arguments: &RunArguments,
    monitor: &Monitor,
    read: &[String],
    run_context: &RunContext,
) -> anyhow::Result<(Vec<Box<dyn Sink>>, BadRowPolicy)> {
    let mut openings = Vec::new();
    for address in wanted(arguments, monitor) {
        let kind = registry::sink_for(&address, run_context)?;
        // A trigger of a fairness file repeats its alarm at every check.
        let default = if monitor.fairness.is_some() { Selection::Alarms } else { Selection::Triggers };
        let select = address.options.parse("select", default)?;
        let Address { location, options, .. } = address;
        openings.push((kind, SinkRequest { select, location, options, resume: None }));
    }
    // The location of a plugin is that of its code, which is not written to.
    let written = openings.iter().filter(|(kind, _)| kind.adapter().name != "plugin");
    let mut written: Vec<&str> = written.map(|(_, request)| request.location.as_str()).collect();
    if let OnBadRow::File(path) = &arguments.on_bad_row {
        written.push(path);
    }
    let mut evidence = arguments.evidence.as_deref().map(Address::parse);
    written.extend(evidence.iter().map(|evidence| evidence.location.as_str()));
    refuse_to_destroy(arguments, &monitor.inputs, read, &written)?;
    for (kind, request) in &mut openings {
        let name = kind.adapter().name;
        if records::SINKS.contains(&name) {
            request.resume = records::position_of_sink(&request.location, name, &mut request.options)?;
        }
    }
    if let Some(Address { location, options, .. }) = &mut evidence {
        records::check_evidence(location, options)?;
    }
    let sinks: Result<Vec<_>, _> = openings.iter().map(|(kind, request)| kind.open(request)).collect();
    Ok((sinks?, bad_rows::policy(&arguments.on_bad_row)?))
}

/// The sinks that were asked for.
pub(crate) fn wanted(arguments: &RunArguments, monitor: &Monitor) -> Vec<Address> {
    let mut wanted: Vec<Address> = arguments.to.iter().map(|sink| Address::parse(sink)).collect();
    if wanted.is_empty() {
        wanted.clone_from(&monitor.sinks);
    }
    if wanted.is_empty() {
        wanted.push(Address::parse("console"));
    }
    wanted
}

/// Refuses to overwrite an input, and to write to a file twice.
fn refuse_to_destroy(
    arguments: &RunArguments,
    inputs: &[Address],
    read: &[String],
    written: &[&str],
) -> anyhow::Result<()> {
    let inputs = inputs.iter().map(|input| input.location.as_str());
    let inputs: Vec<&Path> =
        inputs.map(|input| Path::new(if input == "-" { "/dev/stdin" } else { input })).collect();
    let inputs: Vec<&Path> = inputs.into_iter().chain(read.iter().map(Path::new)).collect();
    let place = |location: &&str| {
        Path::new(if is_standard_output(location) { "/dev/stdout" } else { location }).to_owned()
    };
    let places: Vec<PathBuf> = written.iter().map(place).collect();
    for (index, (location, place)) in written.iter().zip(&places).enumerate() {
        if inputs.iter().any(|input| is_same(input, place)) {
            bail!("{location} is an input; writing there would destroy it");
        }
        if is_same(&arguments.input.spec, place) {
            bail!("{location} is the specification; writing there would destroy it");
        }
        if places[..index].iter().any(|other| other == place || is_same(other, place)) {
            let name = if is_standard_output(location) { "standard output" } else { location };
            bail!("{name} is written to twice; give each sink a place of its own");
        }
    }
    Ok(())
}

fn is_standard_output(location: &str) -> bool {
    location == "-" || location == "console"
}

/// Whether two paths lead to the same file.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    identity(one).is_some_and(|one| Some(one) == identity(other))
}

/// The identity of a file. `None` for terminals and pipes, which several sinks may write to.
fn identity(path: &Path) -> Option<(PathBuf, u64, u64)> {
    match path.metadata() {
        Ok(meta) if !meta.is_file() => None,
        #[cfg(unix)]
        Ok(meta) => {
            use std::os::unix::fs::MetadataExt;
            Some((PathBuf::new(), meta.dev(), meta.ino()))
        }
        #[cfg(not(unix))]
        Ok(_) => Some((path.canonicalize().ok()?, 0, 0)),
        // The file does not exist yet, but its folder does; or it is a link, and the folder of its target does.
        Err(_) => {
            let folder =
                path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            match path.read_link() {
                Ok(target) => identity(&folder.join(target)),
                Err(_) => Some((folder.canonicalize().ok()?.join(path.file_name()?), 0, 0)),
            }
        }
    }
}
