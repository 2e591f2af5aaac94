//! Packets are dissected as scapy dissects them, from files of scapy, tcpdump and Wireshark; the fields of a
//! truncated packet are absent or equal to those of the whole packet.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod support;

use std::collections::BTreeMap;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, UInt8Type, UInt64Type};
use fairstream_core::EventBatch;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use support::{classic, data, everything, read};

const LOCAL: &[(&str, &str)] = &[("local_network", "10.0.0.0/8")];

/// The values that a row has, by column.
fn row(rows: &RecordBatch, row: usize) -> Map<String, Value> {
    let mut found = Map::new();
    for (field, column) in rows.schema().fields().iter().zip(rows.columns()) {
        if column.is_null(row) {
            continue;
        }
        let value = match field.data_type() {
            DataType::Boolean => json!(column.as_boolean().value(row)),
            DataType::UInt64 => json!(column.as_primitive::<UInt64Type>().value(row)),
            DataType::Utf8 => json!(column.as_string::<i32>().value(row)),
            DataType::Binary => {
                let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
                json!(hex(column.as_binary::<i32>().value(row)))
            }
            DataType::Struct(_) => {
                let parts = column.as_struct().columns().iter();
                json!(parts.map(|part| part.as_primitive::<UInt8Type>().value(row)).collect::<Vec<_>>())
            }
            other => panic!("no column is {other}"),
        };
        found.insert(field.name().clone(), value);
    }
    found
}

fn rows(batches: &[EventBatch]) -> Vec<Map<String, Value>> {
    batches
        .iter()
        .flat_map(|batch| {
            assert!(batch.rejected.is_empty(), "{:?}", batch.rejected);
            (0..batch.len()).map(|index| {
                let mut found = row(&batch.rows, index);
                found.insert("time".to_owned(), json!(batch.times[index]));
                found
            })
        })
        .collect()
}

#[test]
fn every_field_is_what_scapy_makes_of_it() {
    let (mut files, mut packets, mut seen) = (0, 0, BTreeMap::<String, usize>::new());
    for entry in std::fs::read_dir(data("")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().unwrap() == "jsonl" {
            continue;
        }
        files += 1;
        let found = rows(&read(&path, everything(), LOCAL).unwrap());
        let expected = std::fs::read_to_string(format!("{}.jsonl", path.display())).unwrap();
        let expected: Vec<Map<String, Value>> =
            expected.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let differ = |name: &&String| found.get(*name) != expected.get(*name);
            let names: Vec<&String> = found.keys().chain(expected.keys()).filter(differ).collect();
            assert!(
                names.is_empty(),
                "{}, packet {}: {names:?}\n{found:?}\n{expected:?}",
                path.display(),
                number + 1
            );
            expected.keys().for_each(|name| *seen.entry(name.clone()).or_default() += 1);
        }
        assert_eq!(found.len(), expected.len(), "{}", path.display());
        packets += found.len();
    }
    assert!(files >= 12 && packets > 150, "only {packets} packets of {files} files");
    for column in everything() {
        assert!(seen.contains_key(&column.name), "no packet has `{}`", column.name);
    }
}

/// The bytes of the packets of a classic file in native byte order.
fn frames(name: &str) -> Vec<Vec<u8>> {
    let file = std::fs::read(data(name)).unwrap();
    let big = file[0] == 0xa1;
    let mut rest = &file[24..];
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let length: [u8; 4] = rest[8..12].try_into().unwrap();
        let length = if big { u32::from_be_bytes(length) } else { u32::from_le_bytes(length) } as usize;
        frames.push(rest[16..16 + length].to_vec());
        rest = &rest[16 + length..];
    }
    frames
}

fn read_packets(link: u32, packets: Vec<Vec<u8>>) -> Vec<Map<String, Value>> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("packets.pcap");
    std::fs::write(&path, classic(link, packets)).unwrap();
    rows(&read(&path, everything(), LOCAL).unwrap())
}

/// A truncated packet has fewer values, never other values.
#[test]
fn what_was_not_captured_is_silent() {
    for (name, link) in [("ethernet.pcap", 1), ("raw.pcap", 101), ("cooked.pcap", 113), ("cooked2.pcap", 276)]
    {
        for frame in frames(name) {
            let cut: Vec<Vec<u8>> = (0..=frame.len()).map(|length| frame[..length].to_vec()).collect();
            let found = read_packets(link, cut);
            let whole = found.last().unwrap().clone();
            let mut before = 0;
            for (length, found) in found.iter().enumerate() {
                for (column, value) in found {
                    match column.as_str() {
                        // The payload of a truncated packet is shorter, and may be that of an outer layer.
                        "payload" | "protocol" | "time" | "length" => {}
                        _ => assert_eq!(
                            Some(value),
                            whole.get(column),
                            "{column} of {length} bytes of {frame:x?}"
                        ),
                    }
                }
                let columns = found.keys().filter(|name| *name != "payload").count();
                assert!(columns >= before, "{length} bytes of {frame:x?} say less than one fewer");
                before = columns;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any bytes are a packet with or without values; adjacent packets are not affected.
    #[test]
    fn nonsense_is_a_packet_like_any_other(
        packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..120), 1..8),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        link in prop::sample::select(vec![0, 1, 12, 101, 108, 113, 276]),
        pick in any::<prop::sample::Index>(),
    ) {
        let real = frames(if link == 1 { "ethernet.pcap" } else { "raw.pcap" });
        let mut changed = pick.get(&real).clone();
        for (at, byte) in changes {
            let at = at.index(changed.len());
            changed[at] = byte;
        }
        let mut all = packets;
        all.push(changed);
        all.push(real[0].clone());
        let found = read_packets(link, all.clone());
        prop_assert_eq!(found.len(), all.len());
        let alone = read_packets(link, vec![real[0].clone()]);
        for (column, value) in alone.last().unwrap().iter().filter(|(name, _)| *name != "time") {
            prop_assert_eq!(found.last().unwrap().get(column), Some(value));
        }
    }
}
