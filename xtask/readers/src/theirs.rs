//! The fastest crates for each format, on the same files. They decode the fields that the sources decode, and
//! discard them.

use std::fs::File;
use std::hint::black_box;
use std::path::Path;

use anyhow::Context;
use arrow::ipc::reader::FileReader;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde::Deserialize;

use crate::measure::{Contestant, Kind};

pub(crate) fn contestants(format: &str, path: &Path) -> Vec<Contestant> {
    let decoder = |name: &str, read: fn(&Path) -> anyhow::Result<usize>| {
        let path = path.to_owned();
        Contestant::new(name, Kind::Decoder, move || read(&path))
    };
    match format {
        "csv" => vec![decoder("csv crate, fields parsed", csv_fields)],
        "jsonl" => vec![
            decoder("serde_json, one struct per line", serde_lines),
            decoder("simd-json, one tape per line", simd_lines),
        ],
        "parquet" => vec![decoder("arrow-rs", parquet_batches)],
        "arrow" => vec![decoder("arrow-rs", arrow_batches)],
        _ => vec![decoder("pcap-file and etherparse", packets)],
    }
}

fn csv_fields(path: &Path) -> anyhow::Result<usize> {
    let mut reader = csv::ReaderBuilder::new().buffer_capacity(1 << 18).from_path(path)?;
    let mut record = csv::ByteRecord::new();
    let mut rows = 0;
    while reader.read_byte_record(&mut record)? {
        let number = |index: usize| -> anyhow::Result<Option<u64>> {
            let text = std::str::from_utf8(record.get(index).context("a field")?)?;
            Ok(if text.is_empty() { None } else { Some(text.parse()?) })
        };
        let gender = std::str::from_utf8(record.get(2).context("a field")?)?;
        black_box((number(0)?, number(1)?, gender, number(3)?));
        rows += 1;
    }
    Ok(rows)
}

#[derive(Deserialize)]
struct Event<'a> {
    time: u64,
    id: Option<u64>,
    gender: Option<&'a str>,
    accepted: Option<u64>,
}

fn serde_lines(path: &Path) -> anyhow::Result<usize> {
    let bytes = std::fs::read(path)?;
    let mut rows = 0;
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let event: Event<'_> = serde_json::from_slice(line)?;
        black_box((event.time, event.id, event.gender, event.accepted));
        rows += 1;
    }
    Ok(rows)
}

fn simd_lines(path: &Path) -> anyhow::Result<usize> {
    let mut bytes = std::fs::read(path)?;
    let mut buffers = simd_json::Buffers::default();
    let mut rows = 0;
    for line in bytes.split_mut(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        black_box(simd_json::to_tape_with_buffers(line, &mut buffers)?);
        rows += 1;
    }
    Ok(rows)
}

fn parquet_batches(path: &Path) -> anyhow::Result<usize> {
    let reader =
        ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?.with_batch_size(8192).build()?;
    let mut rows = 0;
    for batch in reader {
        rows += black_box(batch?).num_rows();
    }
    Ok(rows)
}

fn arrow_batches(path: &Path) -> anyhow::Result<usize> {
    let mut rows = 0;
    for batch in FileReader::try_new(File::open(path)?, None)? {
        rows += black_box(batch?).num_rows();
    }
    Ok(rows)
}

fn packets(path: &Path) -> anyhow::Result<usize> {
    let file = std::io::BufReader::with_capacity(1 << 18, File::open(path)?);
    let mut reader = pcap_file::pcap::PcapReader::new(file)?;
    let mut rows = 0;
    while let Some(packet) = reader.next_packet() {
        let packet = packet?;
        let sliced = etherparse::SlicedPacket::from_ethernet(&packet.data)?;
        let source = match &sliced.net {
            Some(etherparse::NetSlice::Ipv4(ip)) => Some(ip.header().source()),
            _ => None,
        };
        let ports = match &sliced.transport {
            Some(etherparse::TransportSlice::Tcp(tcp)) => {
                Some((tcp.destination_port(), tcp.syn(), tcp.ack()))
            }
            _ => None,
        };
        black_box((packet.timestamp, source, ports));
        rows += 1;
    }
    Ok(rows)
}
