//! Rows of evidence as columns, and back.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Float64Builder, Int64Array, Int64Builder, RecordBatch,
    StringArray, StringBuilder, UInt64Array, UInt64Builder,
};
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema, SchemaRef, UInt64Type};
use fairstream_core::{EventBatch, Position, Time, WantedColumn};

use super::{EvidenceRow, TrialRow};

/// The columns of evidence, in addition to `time`, the time of the check.
///
/// `kind` is `rule` (a rule, in column `rule`), `group` (a group that is compared from now on), `left` (a check at which
/// trials left the window, and none was counted) or `trial`. A trial has
/// the `metric` and the number of the `check` that counted it, the time at which it `ended`, in nanoseconds since 1970, its `key`, `group`, `stratum` and `indicators`, the
/// `value` that it adds, its `block`, and the `alarm` of its metric and stratum that it counts towards. `hash` chains the
/// rows.
pub fn evidence_schema() -> SchemaRef {
    let text = |name: &str| Field::new(name, DataType::Utf8, true);
    let number = |name: &str| Field::new(name, DataType::UInt64, true);
    Arc::new(Schema::new(vec![
        text("kind"),
        text("metric"),
        number("check"),
        Field::new("ended", DataType::Int64, true),
        text("key"),
        text("group"),
        text("stratum"),
        text("indicators"),
        Field::new("value", DataType::Float64, true),
        number("block"),
        number("alarm"),
        text("rule"),
        text("hash"),
    ]))
}

/// Collects rows into batches.
#[derive(Debug, Default)]
pub(super) struct RowWriter {
    times: Vec<i64>,
    kind: StringBuilder,
    metric: StringBuilder,
    check: UInt64Builder,
    ended: Int64Builder,
    key: StringBuilder,
    group: StringBuilder,
    stratum: StringBuilder,
    indicators: StringBuilder,
    value: Float64Builder,
    block: UInt64Builder,
    alarm: UInt64Builder,
    rule: StringBuilder,
    hash: StringBuilder,
    written: u64,
}

impl RowWriter {
    pub(super) fn len(&self) -> usize {
        self.times.len()
    }

    /// Adds a row, with its hash in the chain.
    pub(super) fn push(&mut self, time: Time, row: &EvidenceRow, hash: &str) {
        self.hash.append_value(hash);
        self.times.push(time.0);
        let (kind, metric) = match row {
            EvidenceRow::Rule { metric, .. } => ("rule", metric),
            EvidenceRow::Group { metric, .. } => ("group", metric),
            EvidenceRow::Left { metric, .. } => ("left", metric),
            EvidenceRow::Trial(TrialRow { metric, .. }) => ("trial", metric),
        };
        self.kind.append_value(kind);
        self.metric.append_value(metric);
        let rule = if let EvidenceRow::Rule { rule, .. } = row { Some(rule) } else { None };
        self.rule.append_option(rule);
        let (check, group, stratum) = match row {
            EvidenceRow::Rule { .. } => (None, None, None),
            EvidenceRow::Left { check, .. } => (Some(*check), None, None),
            EvidenceRow::Group { check, group, stratum, .. } => (Some(*check), Some(group), Some(stratum)),
            EvidenceRow::Trial(TrialRow { check, group, stratum, .. }) => {
                (Some(*check), Some(group), Some(stratum))
            }
        };
        self.check.append_option(check);
        self.group.append_option(group);
        self.stratum.append_option(stratum);
        let trial = if let EvidenceRow::Trial(trial) = row { Some(trial) } else { None };
        self.ended.append_option(trial.map(|trial| trial.ended.0));
        self.key.append_option(trial.map(|trial| &trial.key));
        self.indicators.append_option(trial.map(|trial| &trial.indicators));
        self.value.append_option(trial.map(|trial| trial.value));
        self.block.append_option(trial.and_then(|trial| trial.block));
        self.alarm.append_option(trial.and_then(|trial| trial.alarm));
    }

    /// The rows pushed since the last call; `None` if there are none.
    pub(super) fn batch(&mut self) -> Option<EventBatch> {
        let times = std::mem::take(&mut self.times);
        if times.is_empty() {
            return None;
        }
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.kind.finish()),
            Arc::new(self.metric.finish()),
            Arc::new(self.check.finish()),
            Arc::new(self.ended.finish()),
            Arc::new(self.key.finish()),
            Arc::new(self.group.finish()),
            Arc::new(self.stratum.finish()),
            Arc::new(self.indicators.finish()),
            Arc::new(self.value.finish()),
            Arc::new(self.block.finish()),
            Arc::new(self.alarm.finish()),
            Arc::new(self.rule.finish()),
            Arc::new(self.hash.finish()),
        ];
        let rows = RecordBatch::try_new(evidence_schema(), columns).ok()?;
        let first = self.written + 1;
        self.written += times.len() as u64;
        Some(EventBatch::new(rows, times, (first..=self.written).collect::<Vec<_>>(), Position::default()))
    }
}

/// Reads rows of evidence from the batches of a source.
#[derive(Debug)]
pub struct EvidenceReader;

impl EvidenceReader {
    /// The columns that a source of evidence has to have.
    pub fn wanted() -> Vec<WantedColumn> {
        let column = |field: &Arc<Field>| WantedColumn {
            name: field.name().clone(),
            data_type: field.data_type().clone(),
        };
        evidence_schema().fields().iter().map(column).collect()
    }

    /// The rows of a batch. An error names the first row that is not evidence.
    pub(super) fn rows(batch: &EventBatch) -> Result<Vec<ReadRow>, String> {
        if batch.rows.schema().fields().len() != evidence_schema().fields().len() {
            return Err("these are not the columns of evidence".to_owned());
        }
        let columns = EvidenceColumns::of(&batch.rows).ok_or("these are not the columns of evidence")?;
        (0..batch.len())
            .map(|row| {
                let read = columns.row(row).ok_or_else(|| {
                    format!("row {}: this is not a row of evidence", batch.row_numbers[row])
                })?;
                let hash = columns.hash.is_valid(row).then(|| columns.hash.value(row).to_owned());
                Ok(ReadRow {
                    number: batch.row_numbers[row],
                    time: batch.time(row),
                    hash: hash.unwrap_or_default(),
                    row: read,
                })
            })
            .collect()
    }
}

/// A row of evidence that has been read.
#[derive(Debug)]
pub(super) struct ReadRow {
    /// Its number in the file, as the source counts.
    pub(super) number: u64,
    pub(super) time: Time,
    pub(super) hash: String,
    pub(super) row: EvidenceRow,
}

struct EvidenceColumns<'a> {
    texts: [&'a StringArray; 7],
    numbers: [&'a UInt64Array; 3],
    ended: &'a Int64Array,
    hash: &'a StringArray,
    value: &'a Float64Array,
}

impl<'a> EvidenceColumns<'a> {
    fn of(rows: &'a RecordBatch) -> Option<EvidenceColumns<'a>> {
        let text = |name: &str| rows.column_by_name(name)?.as_string_opt::<i32>();
        let number = |name: &str| rows.column_by_name(name)?.as_primitive_opt::<UInt64Type>();
        Some(EvidenceColumns {
            texts: [
                text("kind")?,
                text("metric")?,
                text("key")?,
                text("group")?,
                text("stratum")?,
                text("indicators")?,
                text("rule")?,
            ],
            numbers: [number("check")?, number("block")?, number("alarm")?],
            ended: rows.column_by_name("ended")?.as_primitive_opt::<Int64Type>()?,
            hash: text("hash")?,
            value: rows.column_by_name("value")?.as_primitive_opt::<Float64Type>()?,
        })
    }

    fn row(&self, row: usize) -> Option<EvidenceRow> {
        let [kind, metric, key, group, stratum, indicators, rule] =
            self.texts.map(|column| column.is_valid(row).then(|| column.value(row).to_owned()));
        let [check, block, alarm] =
            self.numbers.map(|column| column.is_valid(row).then(|| column.value(row)));
        let value = self.value.is_valid(row).then(|| self.value.value(row));
        let ended = self.ended.is_valid(row).then(|| self.ended.value(row));
        let metric = metric?;
        match kind?.as_str() {
            "rule" => Some(EvidenceRow::Rule { metric, rule: rule? }),
            "group" => Some(EvidenceRow::Group { metric, check: check?, group: group?, stratum: stratum? }),
            "left" => Some(EvidenceRow::Left { metric, check: check? }),
            "trial" => Some(EvidenceRow::Trial(TrialRow {
                metric,
                check: check?,
                ended: Time(ended?),
                key: key.unwrap_or_default(),
                group: group?,
                stratum: stratum?,
                indicators: indicators.unwrap_or_default(),
                value: value?,
                block,
                alarm,
            })),
            _ => None,
        }
    }
}
