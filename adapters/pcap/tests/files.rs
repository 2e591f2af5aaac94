//! Capture files that are damaged, truncated or of unsupported kinds; and the time options of blocks.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod support;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, UInt16Type};
use fairstream_core::{EventBatch, WantedColumn};
use support::{address, block, classic, data, enhanced, interface, read, section};

/// Result of reading a file: its times, or its error and the number of packets before it.
fn outcome(bytes: &[u8]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.pcap");
    std::fs::write(&path, bytes).unwrap();
    let describe = |batches: &[EventBatch]| {
        let mut rows: Vec<(u64, String)> = Vec::new();
        for batch in batches {
            let good = batch.row_numbers.iter().zip(batch.times.iter());
            rows.extend(good.map(|(row, time)| (*row, time.to_string())));
            rows.extend(batch.rejected.iter().map(|bad| (bad.row, bad.reason.clone())));
        }
        rows.sort();
        rows.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(", ")
    };
    match read(&path, vec![WantedColumn::new("protocol", DataType::Utf8)], &[]) {
        Ok(batches) => describe(&batches),
        Err((batches, error)) => {
            let error = error.to_string().replace(path.to_str().unwrap(), "FILE");
            [describe(&batches), error]
                .into_iter()
                .filter(|text| !text.is_empty())
                .collect::<Vec<_>>()
                .join(", ")
        }
    }
}

const IP: [u8; 20] = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 253, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];

fn two() -> Vec<u8> {
    classic(101, [IP.to_vec(), IP.to_vec()])
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_place() {
    let cut = |bytes: &[u8], length: usize| bytes[..length].to_vec();
    let changed = |at: usize, byte: u8| {
        let mut bytes = two();
        bytes[at] = byte;
        bytes
    };
    for (bytes, expected) in [
        (two(), "1000000000, 2000000000"),
        (cut(&two(), 24), ""),
        (Vec::new(), "cannot open FILE: it is empty"),
        (b"time,id\n".repeat(9), "cannot open FILE: it is not a file of packets: neither pcap nor pcapng"),
        (cut(&two(), 3), "cannot open FILE: it is not a file of packets: neither pcap nor pcapng"),
        (cut(&two(), 23), "cannot open FILE: it is cut off in its header"),
        (
            cut(&two(), 61),
            "1000000000, cannot read FILE after row 1: it is cut off in packet 2, which begins at byte 60",
        ),
        (
            cut(&two(), 95),
            "1000000000, cannot read FILE after row 1: it is cut off in packet 2, which begins at byte 60",
        ),
        (
            changed(68, 0xff),
            "1000000000, cannot read FILE after row 1: it is damaged at byte 60, before packet 2: a packet of \
             4278190100 bytes cannot be",
        ),
        (
            changed(23, 127),
            "cannot open FILE: its link type 127 is not read; there are Ethernet (1), IP alone (101), null (0), \
             loopback (108) and Linux cooked (113, 276)",
        ),
    ] {
        assert_eq!(outcome(&bytes), expected);
    }
}

#[test]
fn blocks_say_what_packets_mean() {
    let option = |code: u16, value: &[u8]| {
        let mut option = [code.to_le_bytes(), (value.len() as u16).to_le_bytes()].concat();
        option.extend(value);
        option.resize(option.len().next_multiple_of(4), 0);
        option
    };
    let packet = |interface: u32, units: u64| enhanced(interface, units, &IP);
    let nanos = interface(101, &option(9, &[9]));
    let halves = interface(101, &[option(2, b"eth0"), option(9, &[0x81])].concat());
    let later = interface(101, &[option(14, &100_i64.to_le_bytes()), option(0, &[])].concat());
    let check = |blocks: &[Vec<u8>], expected: &str| {
        let bytes = [section(), blocks.concat()].concat();
        assert_eq!(outcome(&bytes), expected);
    };
    let micros = interface(101, &[]);
    check(&[micros.clone(), packet(0, 1_500_000)], "1500000000");
    check(&[nanos.clone(), halves, packet(0, 7), packet(1, 3)], "7, 1500000000");
    check(&[later, packet(0, 1)], "100000001000");
    // A new section discards the interfaces of the one before.
    check(&[nanos.clone(), packet(0, 7), section(), micros.clone(), packet(0, 7)], "7, 7000");
    check(
        &[micros.clone(), packet(0, 1), packet(1, 2), packet(0, 3)],
        "1000, it is from interface 1, of which nothing is said before (1 are known), 3000",
    );
    check(&[micros.clone(), packet(0, u64::MAX)], "its time is outside the years 1677 to 2262");
    check(
        &[micros.clone(), block(3, &[&[20, 0, 0, 0][..], &IP].concat()), packet(0, 1)],
        "it is a simple packet, which has no time, 1000",
    );
    let unread = "its link type 147 is not read; there are Ethernet (1), IP alone (101), null (0), loopback (108) \
                  and Linux cooked (113, 276)";
    check(&[interface(147, &[]), micros.clone(), packet(0, 1), packet(1, 2)], &format!("{unread}, 2000"));
    // The obsolete packet block.
    let head = [0_u32, 0, 5, 20, 20].map(u32::to_le_bytes).concat();
    check(&[micros.clone(), block(2, &[&head, &IP[..]].concat())], "5000");
    let wrong = |at: usize, byte: u8| {
        let mut block = packet(0, 1);
        block[at] = byte;
        block
    };
    let begin = "1000, cannot read FILE after row 1: it is damaged at byte 100, before packet 2: ";
    for (bad, reason) in [
        (wrong(4, 11), "a block of 11 bytes cannot be"),
        (wrong(7, 0xff), "a block of 4278190132 bytes cannot be"),
        (wrong(48, 1), "a block says at its end that it is of another length than at its beginning"),
        (wrong(20, 99), "a packet of 99 bytes in a block of 52"),
    ] {
        check(&[micros.clone(), packet(0, 1), bad], &format!("{begin}{reason}"));
    }
    check(
        &[micros, packet(0, 1), packet(0, 2)[..40].to_vec()],
        "1000, cannot read FILE after row 1: it is cut off in packet 2, which begins at byte 100",
    );
}

/// Result of requesting a column of a given file.
fn wanting(name: &str, data_type: DataType, options: &[(&str, &str)]) -> String {
    match read(&data("raw.pcap"), vec![WantedColumn::new(name, data_type)], options) {
        Err((_, error)) => error.to_string(),
        Ok(batches) => match batches[0].rows.schema().fields().first() {
            Some(field) => field.data_type().to_string(),
            None => "nothing".to_owned(),
        },
    }
}

#[test]
fn a_column_is_what_is_wanted_of_it_if_that_can_be_meant() {
    let local = [("local_network", "10.0.0.0/8")];
    assert_eq!(wanting("TCP::source", DataType::Int64, &[]), "Int64");
    assert_eq!(wanting("payload", DataType::Utf8, &[]), "Utf8");
    // An unsuitable type is left unchanged, so that the error can name it.
    assert_eq!(wanting("TCP::source", DataType::Utf8, &[]), "UInt16");
    assert_eq!(wanting("IPv4::source", DataType::Utf8, &[]), address(4).to_string());
    assert_eq!(wanting("IPv4::source", address(6), &[]), address(4).to_string());
    assert_eq!(wanting("IPv4::sauce", address(4), &[]), "nothing");
    assert_eq!(wanting("direction", DataType::Utf8, &local), "Utf8");
    assert!(wanting("direction", DataType::Utf8, &[]).contains("append `?local_network="));
    let bad = wanting("direction", DataType::Utf8, &[("local_network", "10.0.0.0")]);
    assert!(bad.contains("`10.0.0.0` is not a network"), "{bad}");
}

#[test]
fn numbers_are_as_wide_as_the_specification_says() {
    let columns = ["TCP::source", "TCP::destination"];
    let wanted = columns.map(|name| WantedColumn::new(name, DataType::UInt16)).to_vec();
    let batches = read(&data("raw.pcap"), wanted, &[]).unwrap();
    let ports = |column: usize| {
        let column = batches[0].rows.column(column).as_primitive::<UInt16Type>();
        column.iter().flatten().collect::<Vec<u16>>()
    };
    assert_eq!(ports(0).first(), Some(&40_000));
    assert_eq!(ports(0).len(), ports(1).len());
    let wanted = vec![WantedColumn::new("TCP::source", DataType::UInt8)];
    let batches = read(&data("raw.pcap"), wanted, &[]).unwrap();
    let bad = &batches[0].rejected[0];
    assert_eq!((bad.row, bad.reason.as_str()), (1, "`40000` is not a UInt8 (it is out of range)"));
    assert!(batches[0].rows.column(0).is_valid(1), "the ports that fit are read");
}

/// Writes the numbers of a pcapng file in either byte order.
#[derive(Clone, Copy)]
struct Ordered {
    big: bool,
}

impl Ordered {
    fn u16(self, number: u16) -> [u8; 2] {
        if self.big { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    fn u32(self, number: u32) -> [u8; 4] {
        if self.big { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let padded = body.len().next_multiple_of(4);
        let length = self.u32(12 + padded as u32);
        let mut block = [self.u32(kind), length].concat();
        block.extend(body);
        block.resize(8 + padded, 0);
        block.extend(length);
        block
    }

    /// A section with one interface, with this unit and offset of times; an enhanced packet at a time, and an
    /// obsolete packet.
    fn section(self, unit: u8, seconds: i64, time: u64) -> Vec<u8> {
        let option = |code: u16, value: &[u8]| {
            let mut option = [self.u16(code), self.u16(value.len() as u16)].concat();
            option.extend(value);
            option.resize(option.len().next_multiple_of(4), 0);
            option
        };
        let from = if self.big { seconds.to_be_bytes() } else { seconds.to_le_bytes() };
        let options = [option(2, b"lo"), option(9, &[unit]), option(14, &from), option(0, &[])].concat();
        let interface = [&self.u16(101)[..], &[0, 0], &self.u32(0), &options].concat();
        let (high, low, length) = ((time >> 32) as u32, time as u32, IP.len() as u32);
        let enhanced = [0, high, low, length, length].map(|number| self.u32(number)).concat();
        let old =
            [&self.u16(0)[..], &self.u16(7), &[high, low, length, length].map(|n| self.u32(n)).concat()];
        let magic = [&self.u32(0x1a2b_3c4d)[..], &self.u16(1), &self.u16(0), &[0xff; 8]].concat();
        [
            self.block(0x0a0d_0d0a, &magic),
            self.block(1, &interface),
            self.block(6, &[&enhanced[..], &IP].concat()),
            self.block(2, &[&old.concat()[..], &IP].concat()),
        ]
        .concat()
    }
}

/// A file has the same content in either byte order, and sections of both may follow each other.
#[test]
fn the_order_of_bytes_changes_nothing() {
    let orders = [Ordered { big: false }, Ordered { big: true }];
    for (unit, seconds, time, nanos) in [
        (6, 0, 0x1_0000_0002, 4_294_967_298_000_i64),
        (9, 0, 1_767_225_600_123_456_789, 1_767_225_600_123_456_789),
        (3, 1_767_225_600, 1_500, 1_767_225_601_500_000_000),
        (0x80 | 10, -5, 1024 * 6 + 512, 1_500_000_000),
        (6, 0x1_0000_0000, 1_000_001, 4_294_967_297_000_001_000),
    ] {
        let expected = format!("{nanos}, {nanos}");
        for order in orders {
            let file = order.section(unit, seconds, time);
            assert_eq!(outcome(&file), expected, "unit {unit}, big-endian: {}", order.big);
            // A truncated file is not read past its end, in either byte order.
            for end in 0..file.len() {
                assert!(!outcome(&file[..end]).contains(&expected), "cut at {end}");
            }
        }
        for [one, other] in [orders, [orders[1], orders[0]]] {
            let file = [one.section(unit, seconds, time), other.section(unit, seconds, time)].concat();
            assert_eq!(outcome(&file), format!("{expected}, {expected}"));
        }
    }
}
