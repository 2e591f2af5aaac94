//! Checkpoints of a run: where it continues, and what is kept of it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use fairstream_checkpoint::{
    CheckpointFolder, FileIdentity, FoundCheckpoint, KeptCounts, KeptOutput, KeptPosition, KeptSource,
    Manifest, NewCheckpoint, VERSION,
};
use fairstream_core::{
    Cause, Checkpoint, CheckpointStore, Checkpointing, Companion, Continuation, OnChange, Position, Source,
    SourceProgress, TimeFormat,
};
use fairstream_files::{FOLLOW, JOURNAL};
use sha2::{Digest, Sha256};

use crate::args::{EngineKind, RunArguments};
use crate::load::Monitor;
use crate::outputs;
use crate::progress::counted;
use crate::registry::Address;
use crate::{note, report};

/// The checkpoints of a run.
pub(crate) struct Checkpoints {
    store: CheckpointWriter,
    every: Duration,
    on_change: OnChange,
    begun: Option<BegunRun>,
}

/// What an earlier run has begun and this one continues, or replaces.
pub(crate) struct BegunRun {
    /// The checkpoint where it continues; `None` if it begins anew.
    from: Option<FoundCheckpoint>,
    manifest: Manifest,
    progress: Vec<SourceProgress>,
}

/// What was kept of an output that is no sink.
pub(crate) struct KeptCompanion {
    pub(crate) position: Option<Position>,
    pub(crate) more: serde_json::Value,
}

/// The answer of a companion to a barrier.
pub(crate) fn answer(position: Option<&Position>, more: serde_json::Value) -> Result<String, Cause> {
    let kept = KeptOutput { output: String::new(), position: position.map(KeptPosition::of), more };
    Ok(serde_json::to_string(&kept)?)
}

/// Refuses inputs that cannot be read again.
pub(crate) fn check_inputs(inputs: &[Address], sources: &[Box<dyn Source>]) -> anyhow::Result<()> {
    for (input, source) in inputs.iter().zip(sources) {
        let is_pipe = input.location == "-" || Path::new(&input.location).exists();
        let is_growing = [FOLLOW, JOURNAL].iter().any(|option| input.options.text(option.name).is_some());
        if source.is_live() && is_pipe && !is_growing {
            bail!(
                "{}: what comes from a pipe cannot be read again after a crash; `--journal DIR` keeps what came from standard \
                 input",
                source.name()
            );
        }
    }
    Ok(())
}

/// What a run with checkpoints cannot promise of its outputs, a sentence each.
pub(crate) fn limits(sinks: &[Address]) -> Vec<String> {
    let is_file = |location: &str| {
        let meta = Path::new(location).metadata();
        meta.is_ok_and(|meta| meta.is_file() || meta.is_dir()) || !Path::new(location).exists()
    };
    let cannot = |sink: &Address| {
        let is_console = sink.kind.as_deref().unwrap_or(&sink.location) == "console";
        (is_console || sink.location == "-" || !is_file(&sink.location)).then(|| {
            let name = if sink.location == "-" { "standard output" } else { &sink.location };
            let name = if is_console { "console" } else { name };
            format!(
                "with checkpoints, what has been written to {name} cannot be taken back: after a crash it gets the verdicts since \
                 the last checkpoint again"
            )
        })
    };
    sinks.iter().filter_map(cannot).collect()
}

impl Checkpoints {
    /// Opens the folder that the arguments name, and finds where to continue.
    pub(crate) fn open(
        arguments: &RunArguments,
        monitor: &Monitor,
        inputs: &[Address],
    ) -> anyhow::Result<Option<Checkpoints>> {
        let Some(path) = &arguments.checkpoint else { return Ok(None) };
        if arguments.verify || arguments.engine == EngineKind::Reference {
            bail!("checkpoints are taken of the compiled engine alone: leave out --verify and --engine");
        }
        let folder = CheckpointFolder::open(path)?;
        let empty = CheckpointWriter::empty(arguments, monitor, inputs, folder)?;
        let found =
            if arguments.restart { empty.folder.newest().ok().flatten() } else { empty.folder.newest()? };
        let mut begun = None;
        if let Some((found, manifest, wrong)) = found {
            for reason in wrong {
                note(&format!("warning: a checkpoint is damaged, so the one before it is used: {reason}"));
            }
            let reached = described(&manifest);
            if arguments.restart {
                note(&format!("beginning anew; checkpoint {} is discarded, {reached}", found.number));
            } else {
                empty.check(&manifest)?;
                if manifest.evaluated.rows > 0 && !arguments.quiet {
                    note(&format!("continuing from checkpoint {}, {reached}", found.number));
                }
            }
            begun = Some(BegunRun::of(found, manifest, arguments.restart)?);
        }
        if arguments.restart {
            empty.folder.clear()?;
        }
        let on_change = if arguments.carry_over { OnChange::CarryOver } else { OnChange::Refuse };
        Ok(Some(Checkpoints { store: empty, every: arguments.checkpoint_every, on_change, begun }))
    }

    /// What an earlier run has begun, if there was one.
    pub(crate) fn begun(&self) -> Option<&BegunRun> {
        self.begun.as_ref()
    }

    /// Where each source continues.
    pub(crate) fn positions(&self) -> anyhow::Result<Vec<Option<Position>>> {
        let Some(BegunRun { from: Some(_), manifest, progress }) = &self.begun else {
            return Ok(vec![None; self.store.inputs.len()]);
        };
        for (kept, path) in manifest.sources.iter().zip(&self.store.inputs) {
            if let (Some(identity), Some(path)) = (&kept.file, path) {
                let cannot = || format!("cannot continue with {}", path.display());
                let checked = identity.check(path).with_context(cannot)?;
                if let Err(other) = checked {
                    bail!("{}: {other}; `--restart` begins anew", cannot());
                }
            }
        }
        Ok(progress.iter().map(|source| source.position.clone()).collect())
    }

    /// Keeps that outputs are begun at these positions, before any is opened: whatever a crash leaves of them may be
    /// replaced.
    pub(crate) fn begin(&self, sinks: Vec<Option<Position>>) -> anyhow::Result<()> {
        if self.begun.as_ref().is_some_and(|begun| begun.from.is_some()) {
            return Ok(());
        }
        let mut manifest = self.store.empty.clone();
        for (kept, position) in manifest.sinks.iter_mut().zip(sinks) {
            kept.position = position.as_ref().map(KeptPosition::of);
        }
        self.store.folder.commit(NewCheckpoint { manifest, state: None })?;
        Ok(())
    }

    /// How checkpoints are taken, and where the run continues.
    pub(crate) fn start(self, companions: Vec<Box<dyn Companion>>) -> (Checkpointing, Option<Continuation>) {
        let Checkpoints { store, every, on_change, begun } = self;
        let continuation = begun.and_then(|BegunRun { from, manifest, progress }| {
            let state = from?.state();
            Some(Continuation {
                engine: if manifest.has_state { Some(Box::new(state)) } else { None },
                on_change,
                sources: progress,
                evaluated: manifest.evaluated.into(),
            })
        });
        (Checkpointing { store: Box::new(store), every, companions }, continuation)
    }
}

impl BegunRun {
    fn of(found: FoundCheckpoint, manifest: Manifest, is_discarded: bool) -> anyhow::Result<BegunRun> {
        let progress: Option<Vec<SourceProgress>> =
            manifest.sources.iter().map(KeptSource::progress).collect();
        let progress = progress.with_context(|| damaged(&found.path))?;
        if is_discarded {
            let mut manifest = manifest;
            let outputs = manifest.sinks.iter_mut().chain(&mut manifest.others);
            outputs.for_each(|output| output.position = None);
            return Ok(BegunRun { from: None, manifest, progress: Vec::new() });
        }
        Ok(BegunRun { from: Some(found), manifest, progress })
    }

    /// Where a sink continues; `None` if it begins anew.
    pub(crate) fn sink(&self, index: usize) -> anyhow::Result<Option<Position>> {
        position(self.manifest.sinks.get(index))
    }

    /// What was kept of an output that is no sink.
    pub(crate) fn companion(&self, index: usize) -> anyhow::Result<Option<KeptCompanion>> {
        let Some(kept) = self.manifest.others.get(index) else { return Ok(None) };
        Ok(Some(KeptCompanion { position: position(Some(kept))?, more: kept.more.clone() }))
    }

    /// How far each source had been evaluated.
    pub(crate) fn progress(&self) -> &[SourceProgress] {
        &self.progress
    }
}

fn position(kept: Option<&KeptOutput>) -> anyhow::Result<Option<Position>> {
    let Some(kept) = kept.and_then(|kept| kept.position.as_ref()) else { return Ok(None) };
    kept.position().map(Some).context("a position of the checkpoint is damaged")
}

fn damaged(path: &Path) -> String {
    format!("{}: a position is damaged; `--restart` begins anew", path.display())
}

/// How far the run of a checkpoint had come.
pub(crate) fn described(manifest: &Manifest) -> String {
    let KeptCounts { rows, reached, .. } = manifest.evaluated;
    let reached = reached.map(|time| format!(", up to {}", fairstream_core::Time(time).for_people()));
    format!("of {}: {}{}", manifest.written, counted(rows, "event"), reached.unwrap_or_default())
}

/// Writes checkpoints to their folder.
struct CheckpointWriter {
    folder: CheckpointFolder,
    /// What is said of a run that has not begun.
    empty: Manifest,
    /// The file that each source is, if it is one.
    inputs: Vec<Option<PathBuf>>,
}

impl CheckpointWriter {
    fn empty(
        arguments: &RunArguments,
        monitor: &Monitor,
        inputs: &[Address],
        folder: CheckpointFolder,
    ) -> anyhow::Result<CheckpointWriter> {
        let path = &arguments.input.spec;
        let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let file = |input: &Address| {
            let path = PathBuf::from(&input.location);
            // What takes the place of a file that is followed is found by the source.
            let is_followed = input.options.text(FOLLOW.name).is_some();
            let is_one = input.others.is_empty() && path.metadata().is_ok_and(|meta| meta.is_file());
            (is_one && !is_followed).then_some(path)
        };
        let source = |input: &Address| KeptSource {
            input: input.to_string(),
            position: None,
            ahead: 0,
            newest: None,
            rows: Default::default(),
            file: None,
        };
        let output = |output: String| KeptOutput { output, position: None, more: serde_json::Value::Null };
        let evidence = arguments.evidence.iter().map(|to| format!("evidence {to}"));
        let bad_rows = arguments.on_bad_row.file().map(|path| format!("bad rows {path}"));
        let empty = Manifest {
            version: VERSION,
            number: 0,
            written: String::new(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            specification: path.display().to_string(),
            specification_sha256: Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect(),
            sources: inputs.iter().map(source).collect(),
            sinks: outputs::wanted(arguments, monitor).iter().map(|sink| output(sink.to_string())).collect(),
            others: evidence.chain(bad_rows).map(output).collect(),
            evaluated: KeptCounts::default(),
            has_state: false,
        };
        let mut store = CheckpointWriter { folder, empty, inputs: inputs.iter().map(file).collect() };
        store.empty.written = written();
        Ok(store)
    }

    /// Checks that a checkpoint is of this command.
    fn check(&self, manifest: &Manifest) -> anyhow::Result<()> {
        let inputs = |manifest: &Manifest| -> Vec<String> {
            manifest.sources.iter().map(|source| source.input.clone()).collect()
        };
        let outputs = |manifest: &Manifest| -> Vec<String> {
            let outputs = manifest.sinks.iter().chain(&manifest.others);
            outputs.map(|output| output.output.clone()).collect()
        };
        let lists = [
            ("inputs", inputs(manifest), inputs(&self.empty)),
            ("outputs", outputs(manifest), outputs(&self.empty)),
        ];
        for (what, before, now) in lists {
            if before != now {
                bail!(
                    "the checkpoint is of a command with other {what}: {} instead of {}; continue with the same command, or begin \
                     anew with --restart",
                    before.join(", "),
                    now.join(", ")
                );
            }
        }
        Ok(())
    }
}

impl CheckpointStore for CheckpointWriter {
    fn commit(&mut self, checkpoint: Checkpoint) -> Result<(), Cause> {
        let mut manifest =
            Manifest { written: written(), evaluated: checkpoint.evaluated.into(), ..self.empty.clone() };
        let sources = manifest.sources.iter_mut().zip(&checkpoint.sources).zip(&self.inputs);
        for ((kept, progress), path) in sources {
            // A file that is gone has been read as far as it could be.
            let identity = path.as_ref().and_then(|path| FileIdentity::of(path).ok());
            *kept = KeptSource::of(std::mem::take(&mut kept.input), progress, identity);
        }
        for (kept, position) in manifest.sinks.iter_mut().zip(&checkpoint.sinks) {
            kept.position = position.as_ref().map(KeptPosition::of);
        }
        for (kept, answer) in manifest.others.iter_mut().zip(&checkpoint.companions) {
            let answer: KeptOutput = serde_json::from_str(answer)?;
            *kept = KeptOutput { output: std::mem::take(&mut kept.output), ..answer };
        }
        self.folder.commit(NewCheckpoint { manifest, state: checkpoint.engine })?;
        Ok(())
    }
}

/// The time by the clock of this machine, as text.
fn written() -> String {
    report::now().written(&TimeFormat::Rfc3339).to_string()
}
