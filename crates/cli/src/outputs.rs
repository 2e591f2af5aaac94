//! The outputs of a run: sinks and the list of bad rows. All are checked before any is opened, so that a mistake does
//! not destroy a file.

use anyhow::bail;
use fairstream_core::{Selection, Sink, SinkFactory, SinkRequest};
use fairstream_files::files_below;

use crate::args::{OnBadRow, RunArguments};
use crate::bad_rows::BadRows;
use crate::checkpoints::Checkpoints;
use crate::evidence::Evidence;
use crate::load::Monitor;
use crate::places::{Kept, refuse_to_destroy};
use crate::records;
use crate::registry::{self, Address, RunContext};

/// The outputs of a run.
pub(crate) struct Outputs {
    pub(crate) sinks: Vec<Box<dyn Sink>>,
    pub(crate) bad_rows: BadRows,
    pub(crate) evidence: Option<Evidence>,
}

/// Opens every output. None may be among the files in `read`. With checkpoints, those that an earlier run has begun are
/// continued.
pub(crate) fn open(
    arguments: &RunArguments,
    monitor: &Monitor,
    read: &[String],
    run_context: &RunContext,
    mut checkpoints: Option<&mut Checkpoints>,
) -> anyhow::Result<Outputs> {
    let mut openings = Vec::new();
    if let Some(error) = monitor.untrusted_sinks.clone().filter(|_| arguments.to.is_empty()) {
        return Err(error.into());
    }
    for address in wanted(arguments, monitor) {
        let kind = registry::sink_for(&address, run_context)?;
        // A trigger of a fairness file repeats its alarm at every check.
        let default = if monitor.fairness.is_some() { Selection::Alarms } else { Selection::Triggers };
        let select = address.options.parse("select", default)?;
        let Address { location, options, .. } = address;
        openings.push((kind, SinkRequest { select, location, options, resume: None }));
    }
    // The location of a plugin is that of its code, which is not written to.
    let is_plugin = |(kind, _): &&(Box<dyn SinkFactory>, SinkRequest)| kind.adapter().name == "plugin";
    let mut kept = kept(arguments, monitor, read);
    kept.extend(
        openings.iter().filter(is_plugin).map(|(_, request)| Kept::new(&request.location, "a plugin")),
    );
    let written = openings.iter().filter(|opening| !is_plugin(opening));
    let mut written: Vec<&str> = written.map(|(_, request)| request.location.as_str()).collect();
    if let OnBadRow::File(path) = &arguments.on_bad_row {
        written.push(path);
    }
    let mut evidence = arguments.evidence.as_deref().map(Address::parse);
    written.extend(evidence.iter().map(|evidence| evidence.location.as_str()));
    refuse_to_destroy(&kept, &written)?;
    let begun = checkpoints.as_deref().and_then(Checkpoints::begun);
    for ((kind, request), address) in openings.iter_mut().zip(wanted(arguments, monitor)) {
        let name = kind.adapter().name;
        if checkpoints.is_some() {
            records::check_continuable(&request.location, name)?;
        }
        match begun.map(|begun| begun.sink(&address.to_string())).transpose()?.flatten() {
            Some(position) => {
                request.options.take("mode");
                request.resume = position;
            }
            // Also one that is new in a run that continues.
            None if records::SINKS.contains(&name) => {
                request.resume = records::position_of_sink(&request.location, name, &mut request.options)?;
            }
            None => {}
        }
    }
    let location = arguments.evidence.as_deref().unwrap_or_default();
    if let Some(address) = &mut evidence {
        if checkpoints.is_some() {
            records::check_continuable(
                &address.location,
                registry::event_writer_for(address)?.adapter().name,
            )?;
        }
        if !begun.is_some_and(|begun| begun.has_evidence(location)) {
            records::check_evidence(&address.location, &mut address.options)?;
        }
    }
    let of_evidence = begun.map(|begun| begun.evidence(location)).transpose()?.flatten();
    let listed = arguments.on_bad_row.file().zip(begun);
    let of_bad_rows = listed.map(|(path, begun)| begun.bad_rows(path)).transpose()?.flatten();
    let progress = begun.map_or(Vec::new(), |begun| begun.progress().to_vec());
    let is_continued = begun.is_some();
    if let Some(checkpoints) = &mut checkpoints {
        let positions = openings.iter().map(|(_, request)| request.resume.clone()).collect();
        checkpoints.begin(positions)?;
    }
    let open = || -> anyhow::Result<Outputs> {
        let sinks: Result<Vec<_>, _> = openings.iter().map(|(kind, request)| kind.open(request)).collect();
        Ok(Outputs {
            sinks: sinks?,
            bad_rows: BadRows::open(&arguments.on_bad_row, of_bad_rows.as_ref(), &progress)?,
            evidence: Evidence::open(arguments, of_evidence.and_then(|evidence| evidence.position))?,
        })
    };
    match open() {
        Err(error) if is_continued => {
            bail!("{error:#}; an output is continued as it was: put it back, or begin anew with --restart")
        }
        opened => opened,
    }
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

/// The files that no output may replace: what is read, the specification, and the secret that keys are hashed with.
fn kept(arguments: &RunArguments, monitor: &Monitor, read: &[String]) -> Vec<Kept> {
    let spec = arguments.input.spec.to_string_lossy();
    let mut kept = vec![Kept::new(spec, "the specification")];
    kept.extend(
        arguments
            .hash_keys
            .iter()
            .map(|secret| Kept::new(secret.to_string_lossy(), "the secret of `--hash-keys`")),
    );
    kept.extend(monitor.inputs.iter().map(|input| Kept::new(&input.location, "an input")));
    kept.extend(read.iter().map(|file| Kept::new(file, "an input")));
    // The files of tables, which have been read already, and of folders with one file are not among those.
    for input in &monitor.inputs {
        let endings = registry::source_for(input).map_or(&[][..], |kind| kind.adapter().extensions);
        let files = files_below(&input.location, endings).ok().flatten().unwrap_or_default();
        kept.extend(files.iter().map(|file| Kept::new(file.name(), "an input")));
    }
    kept
}
