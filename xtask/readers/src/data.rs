//! Writes the same events in every format, and packets.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, TimestampMicrosecondArray, UInt64Array};
use arrow::ipc::writer::FileWriter;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

const START: u64 = 1_767_225_600;
const BATCH: usize = 8192;

/// Applicants of both genders, one second apart; after every second one, the decision on an earlier one.
struct Event {
    id: Option<u64>,
    gender: Option<&'static str>,
    accepted: Option<u64>,
}

fn event(row: usize) -> Event {
    let number = row as u64;
    if row % 3 == 2 {
        return Event { id: None, gender: None, accepted: Some(number - 1) };
    }
    Event { id: Some(number), gender: Some(["F", "M"][row * 7919 % 7 % 2]), accepted: None }
}

pub(crate) fn write(format: &str, path: &Path, rows: usize) -> anyhow::Result<()> {
    let file = File::create(path)?;
    match format {
        "csv" => text(file, rows, "time,id,gender,accepted\n", |out, time, event| {
            let number = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
            writeln!(
                out,
                "{time},{},{},{}",
                number(event.id),
                event.gender.unwrap_or_default(),
                number(event.accepted)
            )
        }),
        "jsonl" => text(file, rows, "", |out, time, event| match event {
            Event { accepted: Some(accepted), .. } => {
                writeln!(out, "{{\"time\":{time},\"accepted\":{accepted}}}")
            }
            Event { id, gender, .. } => {
                let (id, gender) = (id.unwrap_or_default(), gender.unwrap_or_default());
                writeln!(out, "{{\"time\":{time},\"id\":{id},\"gender\":\"{gender}\"}}")
            }
        }),
        "parquet" => parquet(file, 0, rows),
        "arrow" => {
            let mut writer = FileWriter::try_new(file, &batch(0, 0).schema())?;
            for first in (0..rows).step_by(BATCH) {
                writer.write(&batch(first, BATCH.min(rows - first)))?;
            }
            Ok(writer.finish()?)
        }
        _ => packets(file, rows),
    }
}

fn text(
    file: File,
    rows: usize,
    header: &str,
    line: impl Fn(&mut BufWriter<File>, u64, Event) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    let mut out = BufWriter::new(file);
    out.write_all(header.as_bytes())?;
    for row in 0..rows {
        line(&mut out, START + row as u64, event(row))?;
    }
    Ok(out.flush()?)
}

fn batch(first: usize, rows: usize) -> RecordBatch {
    let events: Vec<Event> = (first..first + rows).map(event).collect();
    let micros = (first..first + rows).map(|row| (START + row as u64).cast_signed() * 1_000_000);
    let columns: [(&str, ArrayRef); 4] = [
        ("time", Arc::new(TimestampMicrosecondArray::from_iter_values(micros))),
        ("id", Arc::new(events.iter().map(|event| event.id).collect::<UInt64Array>())),
        ("gender", Arc::new(events.iter().map(|event| event.gender).collect::<StringArray>())),
        ("accepted", Arc::new(events.iter().map(|event| event.accepted).collect::<UInt64Array>())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
        .unwrap_or_else(|_| RecordBatch::new_empty(Arc::new(arrow::datatypes::Schema::empty())))
}

/// A Parquet file with events from `first` on.
pub(crate) fn parquet(file: File, first: usize, rows: usize) -> anyhow::Result<()> {
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = ArrowWriter::try_new(file, batch(0, 0).schema(), Some(properties))?;
    for at in (first..first + rows).step_by(BATCH) {
        writer.write(&batch(at, BATCH.min(first + rows - at)))?;
    }
    writer.close()?;
    Ok(())
}

/// TCP of many hosts with payloads of up to 600 bytes, a thousand a second.
fn packets(file: File, rows: usize) -> anyhow::Result<()> {
    let mut out = BufWriter::new(file);
    out.write_all(&[0xa1b2_c3d4, 0x0002_0004, 0, 0, 262_144, 1].map(u32::to_be_bytes).concat())?;
    for row in 0..rows {
        let size = row * 7919 % 600;
        let builder = etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
            .ipv4([10, 0, (row % 7) as u8, (row % 251) as u8], [10, 1, 0, 1], 64)
            .tcp((row % 60_000) as u16, (row % 1000) as u16, row as u32, 1024);
        let mut packet = Vec::with_capacity(builder.size(size));
        builder.write(&mut packet, &vec![b'x'; size])?;
        let length = packet.len() as u32;
        let head = [START as u32 + (row / 1000) as u32, (row % 1000) as u32 * 1000, length, length];
        out.write_all(&head.map(u32::to_be_bytes).concat())?;
        out.write_all(&packet)?;
    }
    Ok(out.flush()?)
}
