//! `fairstream explain`: recomputes an alarm from its evidence, and lists the trials behind it.

use anyhow::{Context, bail};
use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, UInt64Type};
use fairstream_core::{
    EventBatch, EventWriterRequest, SourceContext, SourceRequest, Time, TimeFormat, WantedColumn,
};
use fairstream_fairness::{AlarmTrials, ChainHead, EvidenceReader, Replay, evidence_schema, when};

use crate::args::ExplainArguments;
use crate::places::{Kept, refuse_to_destroy};
use crate::progress::counted;
use crate::registry::{self, Address};
use crate::{ExitStatus, print};

/// An alarm in a file of verdicts.
struct AlarmRecord {
    time: Time,
    stream: String,
    message: String,
}

pub(crate) fn explain(arguments: &ExplainArguments) -> anyhow::Result<ExitStatus> {
    let ExplainArguments { verdicts, evidence, list, alarm: number, all, trials } = arguments;
    let mut alarms = Vec::new();
    read(verdicts, AlarmRecord::wanted(), |batch| {
        alarms.extend(AlarmRecord::of(batch));
        Ok(())
    })?;
    if alarms.is_empty() {
        bail!("{verdicts} has no alarm");
    }
    let mut replay = Replay::new(published_heads(verdicts));
    if let Some(evidence) = evidence {
        read(evidence, EvidenceReader::wanted(), |batch| Ok(replay.add(batch)?))?;
        replay.finish().with_context(|| evidence.clone())?;
    }
    let Some(evidence) = evidence.as_ref().filter(|_| !list) else {
        let line = |(number, alarm): (usize, &AlarmRecord)| {
            let when = when(alarm.time, replay.by_rows());
            format!("{:>4}  {when:<22} {}\n", number + 1, alarm.message)
        };
        return print(&alarms.iter().enumerate().map(line).collect::<String>());
    };
    let Some(alarm) = number.checked_sub(1).and_then(|index| alarms.get(index)) else {
        bail!("{verdicts} has {}, and no number {number}", counted(alarms.len() as u64, "alarm"));
    };
    let replayed =
        replay.alarm(&alarm.stream, alarm.time, &alarm.message, *all).with_context(|| evidence.clone())?;
    if let Some(location) = trials {
        write_trials(&replayed.trials, evidence, location, verdicts)?;
    }
    let AlarmRecord { message, .. } = alarm;
    let (is_same, conclusion) = match replayed.message == *message {
        true => (true, format!("{verdicts} has the same message, to the last digit.")),
        false => (false, format!("{verdicts} has a different message:\n  {message}")),
    };
    let ChainHead { rows, hash } = replay.head();
    let chain =
        format!("{}, none changed, removed or added; the last has the hash\n  {hash}", counted(*rows, "row"));
    // Trials on standard output are not mixed with sentences.
    if trials.as_ref().is_none_or(|location| Address::parse(location).location != "-") {
        print(&format!(
            "Alarm {number} of {}, at {}\n  {message}\n\n{}\nRecomputed from {evidence} alone: {chain}\n  {}\n\n{conclusion}\n",
            alarms.len(),
            replayed.when,
            replayed.narrative,
            replayed.message
        ))?;
    }
    if !is_same {
        bail!("the evidence does not lead to this alarm: it is of another run, or was changed");
    }
    Ok(ExitStatus::NothingViolated)
}

/// What alarms in a file of verdicts say of the evidence that they were raised on: as fields in JSON lines, as a column in
/// tables. Formats without either say nothing.
fn published_heads(verdicts: &str) -> Vec<ChainHead> {
    let mut heads = Vec::new();
    let fields = vec![
        WantedColumn::new("details.evidence.rows", DataType::UInt64),
        WantedColumn::new("details.evidence.hash", DataType::Utf8),
    ];
    let of_fields = read(verdicts, fields, |batch| {
        let column = |name: &str| batch.rows.column_by_name(name).context("no such column");
        let rows = column("details.evidence.rows")?.as_primitive_opt::<UInt64Type>().context("no number")?;
        let hashes = column("details.evidence.hash")?.as_string_opt::<i32>().context("no text")?;
        let both = rows.iter().zip(hashes.iter()).filter_map(|(rows, hash)| rows.zip(hash));
        heads.extend(both.map(|(rows, hash)| ChainHead { rows, hash: hash.to_owned() }));
        Ok(())
    });
    if of_fields.is_ok() && !heads.is_empty() {
        return heads;
    }
    heads.clear();
    let of_column = read(verdicts, vec![WantedColumn::new("json", DataType::Utf8)], |batch| {
        let details = batch.rows.column_by_name("json").and_then(|column| column.as_string_opt::<i32>());
        let details = details.context("no such column")?;
        let parsed = details.iter().flatten().filter_map(|text| serde_json::from_str(text).ok());
        let of_alarm =
            |details: serde_json::Value| serde_json::from_value(details.get("evidence")?.clone()).ok();
        heads.extend(parsed.filter_map(of_alarm));
        Ok(())
    });
    if of_column.is_err() {
        heads.clear();
    }
    heads
}

/// Writes the trials that an alarm rests on to a file. The evidence is read once more, so that it need not be kept.
fn write_trials(trials: &AlarmTrials, evidence: &str, location: &str, verdicts: &str) -> anyhow::Result<()> {
    let address = Address::parse(location);
    let records = [(evidence, "the evidence"), (verdicts, "the file of verdicts")];
    let kept = records.map(|(record, what)| Kept::new(Address::parse(record).location, what));
    refuse_to_destroy(&kept, &[&address.location])?;
    let mut writer = registry::event_writer_for(&address)?.open(&EventWriterRequest {
        location: address.location,
        options: address.options,
        schema: evidence_schema(),
        time_format: TimeFormat::Rfc3339,
        resume: None,
    })?;
    read(evidence, EvidenceReader::wanted(), |batch| Ok(writer.write(&trials.among(batch)?)?))?;
    Ok(writer.finish()?)
}

/// Reads every batch of a file.
fn read(
    location: &str,
    wanted: Vec<WantedColumn>,
    mut take: impl FnMut(&EventBatch) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let address = Address::parse(location);
    let kind = registry::source_for(&address)?;
    let request = SourceRequest {
        location: address.location,
        options: address.options,
        wanted,
        context: SourceContext::default(),
        ..SourceRequest::default()
    };
    let mut source = kind.open(&request)?;
    while let Some(batch) = source.next_batch()? {
        if let Some(bad) = batch.rejected.first() {
            bail!("{location}: {bad}");
        }
        take(&batch).with_context(|| location.to_owned())?;
    }
    Ok(())
}

impl AlarmRecord {
    fn wanted() -> Vec<WantedColumn> {
        ["kind", "stream", "message"].map(|name| WantedColumn::new(name, DataType::Utf8)).into()
    }

    fn of(batch: &EventBatch) -> Vec<AlarmRecord> {
        let column = |name: &str| batch.rows.column_by_name(name)?.as_string_opt::<i32>();
        let (Some(kind), Some(stream), Some(message)) = (column("kind"), column("stream"), column("message"))
        else {
            return Vec::new();
        };
        let alarm = |row: &usize| kind.is_valid(*row) && kind.value(*row) == "alarm";
        (0..batch.len())
            .filter(alarm)
            .map(|row| AlarmRecord {
                time: batch.time(row),
                stream: stream.value(row).to_owned(),
                message: message.value(row).to_owned(),
            })
            .collect()
    }
}
