//! Checkpoints of a run: where it continues, and what is kept of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use fairstream_checkpoint::{
    CheckpointFolder, FileIdentity, FolderError, FoundCheckpoint, KeptCounts, KeptOutput, KeptPosition,
    KeptSource, Manifest, NewCheckpoint, VERSION,
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
    let kept =
        KeptOutput { output: String::new(), position: position.map(KeptPosition::of), began: None, more };
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
        let mut empty = CheckpointWriter::empty(arguments, monitor, inputs, folder)?;
        let mut begun = None;
        let found = match empty.folder.newest() {
            // What the outputs of a run were whose checkpoints are damaged is what this run's are.
            Err(FolderError::Damaged { reason, .. }) if arguments.restart => {
                note(&format!("beginning anew; the checkpoints are damaged ({reason}) and discarded"));
                begun = Some(BegunRun { from: None, manifest: empty.empty.clone(), progress: Vec::new() });
                None
            }
            found => found?,
        };
        if let Some((found, manifest, wrong)) = found {
            for reason in wrong {
                note(&format!("warning: a checkpoint is damaged, so the one before it is used: {reason}"));
            }
            let reached = described(&manifest);
            if arguments.restart {
                let outputs = manifest.sinks.iter().chain(&manifest.others);
                let outputs: Vec<&str> = outputs.map(|output| output.output.as_str()).collect();
                note(&format!(
                    "beginning anew; checkpoint {} is discarded, {reached}; so is what the run has written to {}",
                    found.number,
                    outputs.join(", ")
                ));
            } else {
                empty.check(&manifest)?;
                empty.continue_outputs(&manifest);
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
    pub(crate) fn begin(&mut self, sinks: Vec<Option<Position>>) -> anyhow::Result<()> {
        if self.begun.as_ref().is_some_and(|begun| begun.from.is_some()) {
            return Ok(());
        }
        for (kept, position) in self.store.empty.sinks.iter_mut().zip(sinks) {
            kept.began = position.as_ref().map(KeptPosition::of);
        }
        let mut manifest = self.store.empty.clone();
        manifest.sinks.iter_mut().for_each(|kept| kept.position.clone_from(&kept.began));
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
            outputs.for_each(|output| output.position.clone_from(&output.began));
            return Ok(BegunRun { from: None, manifest, progress: Vec::new() });
        }
        Ok(BegunRun { from: Some(found), manifest, progress })
    }

    /// Where a sink continues, by its address; the inner is `None` if it is written anew, the outer if there was none.
    pub(crate) fn sink(&self, address: &str) -> anyhow::Result<Option<Option<Position>>> {
        let kept = self.manifest.sinks.iter().find(|kept| kept.output == address);
        kept.map(|kept| position(Some(kept))).transpose()
    }

    /// Whether there was evidence.
    pub(crate) fn has_evidence(&self, location: &str) -> bool {
        self.manifest.others.iter().any(|kept| kept.output == evidence_name(location))
    }

    /// What was kept of the evidence.
    pub(crate) fn evidence(&self, location: &str) -> anyhow::Result<Option<KeptCompanion>> {
        self.companion(&evidence_name(location))
    }

    /// What was kept of the list of bad rows.
    pub(crate) fn bad_rows(&self, path: &str) -> anyhow::Result<Option<KeptCompanion>> {
        self.companion(&bad_rows_name(path))
    }

    fn companion(&self, name: &str) -> anyhow::Result<Option<KeptCompanion>> {
        let Some(kept) = self.manifest.others.iter().find(|kept| kept.output == name) else {
            return Ok(None);
        };
        Ok(Some(KeptCompanion { position: position(Some(kept))?, more: kept.more.clone() }))
    }

    /// How far each source had been evaluated.
    pub(crate) fn progress(&self) -> &[SourceProgress] {
        &self.progress
    }
}

fn evidence_name(location: &str) -> String {
    format!("evidence {location}")
}

fn bad_rows_name(path: &str) -> String {
    format!("bad rows {path}")
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
        let output = |output: String| KeptOutput {
            output,
            position: None,
            began: None,
            more: serde_json::Value::Null,
        };
        let evidence = arguments.evidence.iter().map(|to| evidence_name(to));
        let bad_rows = arguments.on_bad_row.file().map(bad_rows_name);
        let empty = Manifest {
            version: VERSION,
            number: 0,
            written: String::new(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            specification: path.display().to_string(),
            specification_sha256: Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect(),
            settings: settings(arguments)?,
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
        if inputs(manifest) != inputs(&self.empty) {
            bail!(
                "the checkpoint is of a command with other inputs: {} instead of {}; continue with the same command, or begin anew \
                 with --restart",
                inputs(manifest).join(", "),
                inputs(&self.empty).join(", ")
            );
        }
        let now = outputs(&self.empty);
        if let Some(missing) = outputs(manifest).into_iter().find(|output| !now.contains(output)) {
            bail!(
                "the checkpoint is of a command with other outputs: {missing} is missing; continue with the same command, or begin anew \
                 with --restart"
            );
        }
        for name in manifest.settings.keys().chain(self.empty.settings.keys()) {
            let (before, now) = (manifest.settings.get(name), self.empty.settings.get(name));
            if before != now {
                bail!(
                    "the checkpoint is of a command with {} {name}; continue with the same command, or begin anew with --restart",
                    if before.is_none() { "no" } else { "another" }
                );
            }
        }
        Ok(())
    }

    /// Takes over where outputs began.
    fn continue_outputs(&mut self, manifest: &Manifest) {
        for kept in &mut self.empty.sinks {
            let before = manifest.sinks.iter().find(|before| before.output == kept.output);
            kept.began = before.and_then(|before| before.began.clone());
        }
    }
}

/// What decides which rows are read and what is written of them, beside inputs, outputs and specification.
fn settings(arguments: &RunArguments) -> anyhow::Result<BTreeMap<String, String>> {
    let mut settings = BTreeMap::new();
    let mut set =
        |name: &str, value: Option<String>| value.map(|value| settings.insert(name.to_owned(), value));
    set("--since", arguments.since.map(|since| since.0.to_string()));
    set("--time", arguments.input.time.clone());
    set("--time-format", arguments.input.time_format.as_ref().map(|format| format.name().to_owned()));
    set("--sort", arguments.input.sort.then(|| "true".to_owned()));
    if let Some(path) = &arguments.hash_keys {
        // Of the secret no more than its digest, of which it cannot be guessed.
        let secret = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let digest =
            Sha256::new_with_prefix("the secret of --hash-keys").chain_update(secret.trim_ascii_end());
        let digest = digest.finalize();
        set("--hash-keys", Some(digest.iter().map(|byte| format!("{byte:02x}")).collect()));
    }
    Ok(settings)
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
            *kept =
                KeptOutput { output: std::mem::take(&mut kept.output), began: kept.began.take(), ..answer };
        }
        self.folder.commit(NewCheckpoint { manifest, state: checkpoint.engine })?;
        Ok(())
    }
}

/// The time by the clock of this machine, as text.
fn written() -> String {
    report::now().written(&TimeFormat::Rfc3339).to_string()
}
