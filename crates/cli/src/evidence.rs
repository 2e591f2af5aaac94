//! `--evidence`: writes counted trials to a file.

use std::thread::{self, JoinHandle};

use anyhow::{Context, bail};
use crossbeam_channel::{Receiver, Sender, bounded};
use fairstream_core::{
    Cancelled, Cause, Companion, CompanionAnswer, EventBatch, EventWriter, EventWriterRequest, Position,
    SinkError, TimeFormat,
};
use fairstream_fairness::{EvidenceSink, KeyHash, evidence_schema};

use crate::args::RunArguments;
use crate::checkpoints;
use crate::load::{self, Monitor};
use crate::registry::{self, Address};

/// A file of evidence, which a thread of its own writes.
pub(crate) struct Evidence {
    to_writer: Sender<Message>,
    writer: JoinHandle<Result<(), SinkError>>,
    hash: Option<KeyHash>,
}

enum Message {
    Trials(EventBatch),
    /// What was written before is made durable, and the answer is its position.
    Barrier(Sender<Option<Position>>),
}

/// Checks that evidence is possible, if it is requested.
pub(crate) fn check(arguments: &RunArguments, monitor: &Monitor) -> anyhow::Result<()> {
    if arguments.evidence.is_none() {
        return Ok(());
    }
    match &monitor.fairness {
        None => {
            bail!("--evidence is for fairness files: an RTLola specification does not say what a trial is")
        }
        Some(fairness) if !fairness.is_final() => bail!(
            "there is no evidence of trials that are never final: give [trial] a `horizon`, such as \"30d\", or \"0s\" if the \
             event that opens a trial says all"
        ),
        Some(_) => Ok(()),
    }
}

impl Evidence {
    /// Opens the file for evidence, if it is requested, and continues it at a position.
    pub(crate) fn open(
        arguments: &RunArguments,
        resume: Option<Position>,
    ) -> anyhow::Result<Option<Evidence>> {
        let hash = match &arguments.hash_keys {
            None => None,
            Some(path) => {
                let cannot = || format!("cannot read the secret in {}", path.display());
                /// Longer than any key.
                const MOST: u64 = 64 << 10;
                let secret = load::bounded(path, MOST).with_context(cannot)?;
                // Editors end a file with a line end, which is not part of the secret.
                let secret = secret.trim_ascii_end();
                Some(KeyHash::new(secret).with_context(|| path.display().to_string())?)
            }
        };
        let Some(location) = &arguments.evidence else { return Ok(None) };
        let mut address = Address::parse(location);
        // It has been checked with the other outputs.
        address.options.take("mode");
        let writer = registry::event_writer_for(&address)?.open(&EventWriterRequest {
            location: address.location,
            options: address.options,
            schema: evidence_schema(),
            time_format: TimeFormat::Rfc3339,
            resume,
        })?;
        /// Batches that wait to be written.
        const WAITING: usize = 4;
        let (to_writer, messages) = bounded(WAITING);
        let thread = thread::Builder::new().name("evidence".to_owned());
        let writer = thread.spawn(move || write(writer, &messages)).context("a thread cannot be started")?;
        Ok(Some(Evidence { to_writer, writer, hash }))
    }

    /// The evidence sink of the engine. A failure to write ends the run.
    pub(crate) fn sink(&self) -> (EvidenceSink, Option<KeyHash>) {
        let to_writer = self.to_writer.clone();
        // The writer is gone only after a failure, which `finish` reports.
        let sink = move |batch: EventBatch| to_writer.send(Message::Trials(batch)).map_err(|_| Cancelled);
        (Box::new(sink), self.hash.clone())
    }

    /// Its part in checkpoints.
    pub(crate) fn companion(&self) -> Box<dyn Companion> {
        Box::new(EvidenceCompanion(self.to_writer.clone()))
    }

    /// Makes the evidence durable. Called when the engine and what takes checkpoints are gone.
    ///
    /// # Errors
    /// The evidence could not be written completely.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        drop(self.to_writer);
        match self.writer.join() {
            Ok(written) => Ok(written?),
            Err(_) => bail!("the thread that writes evidence stopped working"),
        }
    }
}

/// Writes evidence until the last sender is gone.
fn write(mut writer: Box<dyn EventWriter>, messages: &Receiver<Message>) -> Result<(), SinkError> {
    let mut written = Ok(());
    for message in messages {
        written = match message {
            Message::Trials(batch) => writer.write(&batch),
            Message::Barrier(answer) => writer.checkpoint().map(|position| {
                // What waits for it may have given up.
                let _ = answer.send(position);
            }),
        };
        if written.is_err() {
            break;
        }
    }
    let finished = writer.finish();
    written.and(finished)
}

struct EvidenceCompanion(Sender<Message>);

impl Companion for EvidenceCompanion {
    fn barrier(&mut self) -> Result<CompanionAnswer, Cause> {
        let gone = "the evidence cannot be written";
        let (answer, position) = bounded(1);
        self.0.send(Message::Barrier(answer)).map_err(|_| gone)?;
        Ok(Box::new(move || {
            let position = position.recv().map_err(|_| gone)?;
            checkpoints::answer(position.as_ref(), serde_json::Value::Null)
        }))
    }
}
