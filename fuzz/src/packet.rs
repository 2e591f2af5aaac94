//! Capture files, and the dissection of packets.

use arrow::datatypes::{DataType, Field};
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use fairstream_core::WantedColumn;
use fairstream_pcap::PcapSources;

use crate::reading::{Question, read};

const COLUMNS: [&str; 6] =
    ["IPv4::source", "IPv6::destination", "TCP::source", "UDP::destination", "payload", "protocol"];

fn question() -> Question {
    let address = |bytes: usize| {
        let part = |index: usize| Field::new(index.to_string(), DataType::UInt8, false);
        DataType::Struct((0..bytes).map(part).collect())
    };
    let types =
        [address(4), address(16), DataType::UInt16, DataType::UInt16, DataType::Binary, DataType::Utf8];
    let wanted = COLUMNS.into_iter().zip(types).map(|(name, data_type)| WantedColumn::new(name, data_type));
    Question { wanted: wanted.collect(), ..Question::default() }
}

/// A capture file.
pub(crate) fn pcap(bytes: &[u8]) {
    let Some(reading) = read(&PcapSources, "x.pcap", bytes, |_| Some(question())) else { return };
    let numbers = reading.rows.iter().map(|row| row.number);
    assert!(numbers.is_sorted_by(|one, next| one < next), "packets are numbered in order");
}

/// A packet, whose first byte selects its link type. All fields that the etherparse crate reads of a frame are
/// read.
pub(crate) fn packet(bytes: &[u8]) {
    const LINKS: [u8; 6] = [1, 101, 0, 108, 113, 12];
    let Some((link, packet)) = bytes.split_first() else { return };
    let link = LINKS[usize::from(*link) % LINKS.len()];
    let length = u32::try_from(packet.len()).unwrap();
    let header = [0xa1b2_c3d4, 0x0002_0004, 0, 0, 262_144, u32::from(link)].map(u32::to_be_bytes).concat();
    let record = [1, 0, length, length].map(u32::to_be_bytes).concat();
    let file = [&header, &record, packet].concat();
    let reading = read(&PcapSources, "x.pcap", &file, |_| Some(question())).expect("a file of packets");
    assert_eq!((reading.rejected.len(), reading.error), (0, None));
    let [row] = reading.rows.as_slice() else { panic!("one packet") };
    let found = |name: &str| {
        let index = COLUMNS.iter().position(|column| *column == name).unwrap();
        row.values[index].as_deref()
    };
    let expected = match link {
        1 => SlicedPacket::from_ethernet(packet),
        101 => SlicedPacket::from_ip(packet),
        _ => return,
    };
    let Ok(expected) = expected else { return };
    let shown = |bytes: &[u8]| {
        let parts: Vec<String> =
            bytes.iter().enumerate().map(|(index, byte)| format!("{index}: {byte}")).collect();
        format!("{{{}}}", parts.join(", "))
    };
    match &expected.net {
        Some(NetSlice::Ipv4(ip)) => {
            assert_eq!(found("IPv4::source"), Some(shown(&ip.header().source()).as_str()));
        }
        Some(NetSlice::Ipv6(ip)) => {
            assert_eq!(found("IPv6::destination"), Some(shown(&ip.header().destination()).as_str()));
        }
        _ => return,
    }
    match &expected.transport {
        Some(TransportSlice::Tcp(tcp)) => {
            assert_eq!(found("TCP::source"), Some(tcp.source_port().to_string().as_str()));
            assert_eq!(found("protocol"), Some("TCP"));
        }
        Some(TransportSlice::Udp(udp)) => {
            assert_eq!(found("UDP::destination"), Some(udp.destination_port().to_string().as_str()));
            assert_eq!(found("protocol"), Some("UDP"));
        }
        _ => {}
    }
}
