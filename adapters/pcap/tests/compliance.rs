//! The source of packets fulfils the contract of `Source`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod support;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use arrow::datatypes::DataType;
use fairstream_core::compliance::{BadInput, LiveInput, SourceCase, check_source};
use fairstream_core::{SourceRequest, WantedColumn};
use fairstream_pcap::PcapSources;
use support::{address, classic, data};

fn request(location: &Path) -> SourceRequest {
    SourceRequest {
        location: location.to_str().unwrap().to_owned(),
        wanted: vec![
            WantedColumn::new("IPv4::source", address(4)),
            WantedColumn::new("TCP::destination", DataType::UInt64),
            WantedColumn::new("TCP::flags::syn", DataType::Boolean),
            WantedColumn::new("payload", DataType::Utf8),
            WantedColumn::new("protocol", DataType::Utf8),
            WantedColumn::new("VLAN::id", DataType::Int32),
            WantedColumn::new("IPv4::identification", DataType::UInt8),
            WantedColumn::new("elsewhere", DataType::Int64),
        ],
        ..SourceRequest::default()
    }
}

/// A raw IP packet with an identification.
fn packet(identification: u16) -> Vec<u8> {
    let [high, low] = identification.to_be_bytes();
    vec![0x45, 0, 0, 20, high, low, 0, 0, 64, 253, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]
}

/// A named pipe with packets in it whose writer stays open and writes no more.
fn silent_pipe(dir: &Path) -> LiveInput {
    let path = dir.join(format!("pipe-{:?}.pcap", thread::current().id()));
    let _ = std::fs::remove_file(&path);
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let (keep_open, until) = mpsc::channel::<()>();
    let write_to = path.clone();
    thread::spawn(move || {
        let mut pipe = File::options().write(true).open(write_to).unwrap();
        let bytes = classic(101, (0..3).map(packet));
        pipe.write_all(&bytes[..bytes.len() - 5]).unwrap();
        let _ = until.recv();
    });
    LiveInput { request: request(&path), ready: 2, writer: Box::new(keep_open) }
}

fn check(name: &str, good: &[u8], rows: usize, pack: &dyn Fn(&[u8]) -> Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let file = |prefix: &str, bytes: &[u8]| {
        let path = dir.path().join(format!("{prefix}-{name}"));
        std::fs::write(&path, pack(bytes)).unwrap();
        request(&path)
    };
    // 300 does not fit into a UInt8.
    let bad = classic(101, [1, 2, 300, 4].map(packet));
    let cut_off = classic(101, (0..100).map(packet));
    check_source(&SourceCase {
        factory: &PcapSources,
        good: file("good", good),
        rows,
        bad: Some(BadInput { request: file("bad", &bad), row: 3, column: Some("IPv4::identification") }),
        missing: request(&dir.path().join("missing.pcap")),
        cut_off: Some(file("cut", &cut_off[..cut_off.len() - 7])),
        live: Some(&|| silent_pipe(dir.path())),
    });
}

#[test]
fn source_complies() {
    let good = std::fs::read(data("cooked2.pcap")).unwrap();
    check("plain.pcap", &good, 8, &|bytes| bytes.to_vec());
}

#[test]
fn source_complies_when_compressed() {
    let good = std::fs::read(data("cooked2.pcap")).unwrap();
    check("packed.pcap.zst", &good, 8, &|bytes| zstd::encode_all(bytes, 3).unwrap());
}

#[test]
fn source_complies_with_blocks() {
    let good = support::blocks(&(0..6).map(packet).collect::<Vec<_>>());
    check("blocks.pcapng", &good, 6, &|bytes| bytes.to_vec());
}
