//! Builds and reads capture files.

#![allow(dead_code, reason = "every test binary takes what it needs")]

use std::path::PathBuf;

use arrow::datatypes::{DataType, Field};
use fairstream_core::{EventBatch, Options, SourceError, SourceFactory, SourceRequest, WantedColumn};
use fairstream_pcap::PcapSources;

/// Files from other programs; `tests/data/make_packets.py` describes how they were made.
pub(crate) fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/packets").join(name)
}

/// The type of an address of this number of bytes.
pub(crate) fn address(bytes: usize) -> DataType {
    let part = |index: usize| Field::new(index.to_string(), DataType::UInt8, false);
    DataType::Struct((0..bytes).map(part).collect())
}

/// A pcap file with packets of a link type, one second apart.
pub(crate) fn classic(link: u32, packets: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut file = [0xa1b2_c3d4, 0x0002_0004, 0, 0, 262_144, link].map(u32::to_be_bytes).concat();
    for (index, packet) in packets.into_iter().enumerate() {
        let length = packet.len() as u32;
        file.extend([index as u32 + 1, 0, length, length].map(u32::to_be_bytes).concat());
        file.extend(packet);
    }
    file
}

/// A block of a pcapng file, little-endian.
pub(crate) fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let length = (12 + padded) as u32;
    let mut block = [kind.to_le_bytes(), length.to_le_bytes()].concat();
    block.extend(body);
    block.resize(8 + padded, 0);
    block.extend(length.to_le_bytes());
    block
}

/// A section header block.
pub(crate) fn section() -> Vec<u8> {
    block(0x0a0d_0d0a, &[&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat())
}

/// An interface with options.
pub(crate) fn interface(link: u16, options: &[u8]) -> Vec<u8> {
    block(1, &[&link.to_le_bytes()[..], &[0, 0], &0_u32.to_le_bytes(), options].concat())
}

/// A packet of an interface.
pub(crate) fn enhanced(interface: u32, units: u64, packet: &[u8]) -> Vec<u8> {
    let length = packet.len() as u32;
    let head = [interface, (units >> 32) as u32, units as u32, length, length].map(u32::to_le_bytes).concat();
    block(6, &[&head, packet].concat())
}

/// A pcapng file of raw IP packets, one second apart, with other blocks among them.
pub(crate) fn blocks(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = [section(), interface(101, &[])].concat();
    for (index, packet) in packets.iter().enumerate() {
        file.extend(block(4, b"names"));
        file.extend(enhanced(0, (index as u64 + 1) * 1_000_000, packet));
    }
    file.extend(block(5, &[0; 12]));
    file
}

/// A request for every column of packets, in its own type.
pub(crate) fn everything() -> Vec<WantedColumn> {
    let numbers = |names: &[&str], data_type: DataType| {
        names.iter().map(|name| WantedColumn::new(*name, data_type.clone())).collect::<Vec<_>>()
    };
    let mut wanted = numbers(&["Ethernet::source", "Ethernet::destination"], address(6));
    wanted.extend(numbers(&["IPv4::source", "IPv4::destination"], address(4)));
    wanted.extend(numbers(&["IPv6::source", "IPv6::destination"], address(16)));
    let flags = ["ns", "fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];
    let flags: Vec<String> = flags.map(|flag| format!("TCP::flags::{flag}")).to_vec();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    wanted.extend(numbers(&flags, DataType::Boolean));
    wanted.extend(numbers(&["IPv4::flags::df", "IPv4::flags::mf"], DataType::Boolean));
    wanted.extend(numbers(&["direction", "protocol"], DataType::Utf8));
    wanted.push(WantedColumn::new("payload", DataType::Binary));
    for layer in [
        "Ethernet: type",
        "VLAN: id priority",
        "IPv4: ihl dscp ecn length identification fragment_offset ttl protocol checksum",
        "IPv6: traffic_class flow_label length next_header hop_limit",
        "TCP: source destination seq_number ack_number data_offset window_size checksum urgent_pointer",
        "UDP: source destination length checksum",
        "ICMP: type code checksum",
    ] {
        let (layer, names) = layer.split_once(':').unwrap();
        let names = names.split_whitespace().map(|name| format!("{layer}::{name}"));
        wanted.extend(names.map(|name| WantedColumn::new(name, DataType::UInt64)));
    }
    wanted.push(WantedColumn::new("length", DataType::UInt64));
    wanted
}

/// Reads a file to its end.
pub(crate) fn read(
    path: &std::path::Path,
    wanted: Vec<WantedColumn>,
    options: &[(&str, &str)],
) -> Result<Vec<EventBatch>, (Vec<EventBatch>, SourceError)> {
    let options: Options = options.iter().copied().collect();
    let location = path.to_str().unwrap().to_owned();
    let request = SourceRequest { location, wanted, options, ..SourceRequest::default() };
    let mut source = PcapSources.open(&request).map_err(|error| (Vec::new(), error))?;
    let mut batches = Vec::new();
    loop {
        match source.next_batch() {
            Ok(Some(batch)) => batches.push(batch),
            Ok(None) => return Ok(batches),
            Err(error) => return Err((batches, error)),
        }
    }
}
