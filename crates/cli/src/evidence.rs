//! `--evidence`: writes counted trials to a file.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, bail};
use fairstream_core::{Cancelled, EventBatch, EventWriter, EventWriterRequest, SinkError, TimeFormat};
use fairstream_fairness::{EvidenceSink, KeyHash, evidence_schema};

use crate::args::RunArguments;
use crate::load::{self, Monitor};
use crate::registry::{self, Address};

/// A file of evidence, which the engine's thread writes.
pub(crate) struct Evidence {
    writing: Arc<Mutex<Writing>>,
    hash: Option<KeyHash>,
}

#[derive(Default)]
struct Writing {
    writer: Option<Box<dyn EventWriter>>,
    failed: Option<SinkError>,
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
    /// Opens the file for evidence, if it is requested.
    pub(crate) fn open(arguments: &RunArguments) -> anyhow::Result<Option<Evidence>> {
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
        })?;
        let writing = Arc::new(Mutex::new(Writing { writer: Some(writer), failed: None }));
        Ok(Some(Evidence { writing, hash }))
    }

    /// The evidence sink of the engine. A failure to write ends the run.
    pub(crate) fn sink(&self) -> (EvidenceSink, Option<KeyHash>) {
        let writing = Arc::clone(&self.writing);
        let sink = move |batch: EventBatch| {
            let mut writing = writing.lock().unwrap_or_else(PoisonError::into_inner);
            let written = writing.writer.as_mut().map_or(Ok(()), |writer| writer.write(&batch));
            written.map_err(|error| {
                writing.failed = Some(error);
                Cancelled
            })
        };
        (Box::new(sink), self.hash.clone())
    }

    /// Makes the evidence durable.
    ///
    /// # Errors
    /// The evidence could not be written completely.
    pub(crate) fn finish(&self) -> anyhow::Result<()> {
        let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let finished = writing.writer.take().map_or(Ok(()), EventWriter::finish);
        match writing.failed.take() {
            Some(error) => Err(error.into()),
            None => Ok(finished?),
        }
    }
}
