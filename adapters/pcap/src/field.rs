//! The columns of packets. Names and types are those of RTLola's network monitor, so that its specifications run
//! unchanged.

use arrow::datatypes::{DataType, Field as Part};
use fairstream_files::Column;

use crate::capture::Captured;
use crate::dissect::{Internet, Packet, Transport, number};
use crate::network::Networks;

/// A column of packets.
#[derive(Clone, Copy)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: FieldKind,
    read: ReadField,
}

type ReadField = for<'a> fn(&PacketContext<'a>) -> Option<FieldValue<'a>>;

/// Type of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldKind {
    /// Unsigned integers of this number of bits.
    Whole(u8),
    Flag,
    /// A tuple of this number of bytes.
    Address(usize),
    Text,
    Bytes,
}

/// A packet with the context that its columns depend on.
pub(crate) struct PacketContext<'a> {
    pub(crate) packet: Packet<'a>,
    pub(crate) length: u32,
    pub(crate) local: &'a Networks,
}

enum FieldValue<'a> {
    Whole(u64),
    Flag(bool),
    Address(&'a [u8]),
    Text(&'static str),
    Bytes(&'a [u8]),
}

impl<'a> PacketContext<'a> {
    pub(crate) fn new(captured: Captured<'a>, local: &'a Networks) -> PacketContext<'a> {
        let packet = Packet::new(captured.link, captured.bytes);
        PacketContext { packet, length: captured.length, local }
    }

    fn ethernet(&self) -> Option<&'a [u8]> {
        self.packet.ethernet
    }

    fn vlan(&self) -> Option<&'a [u8]> {
        self.packet.vlan
    }

    fn v4(&self) -> Option<&'a [u8]> {
        self.packet.internet.filter(|internet| !internet.is_v6).map(|internet| internet.header)
    }

    fn v6(&self) -> Option<&'a [u8]> {
        self.packet.internet.filter(|internet| internet.is_v6).map(|internet| internet.header)
    }

    fn tcp(&self) -> Option<&'a [u8]> {
        if let Some(Transport::Tcp(header)) = self.packet.transport { Some(header) } else { None }
    }

    fn udp(&self) -> Option<&'a [u8]> {
        if let Some(Transport::Udp(header)) = self.packet.transport { Some(header) } else { None }
    }

    fn icmp(&self) -> Option<&'a [u8]> {
        if let Some(Transport::Icmp(header)) = self.packet.transport { Some(header) } else { None }
    }

    /// `Incoming` if the destination is local, else `Outgoing`.
    fn direction(&self) -> Option<&'static str> {
        let destination = self.packet.internet.as_ref().and_then(Internet::destination)?;
        Some(if self.local.contain(destination) { "Incoming" } else { "Outgoing" })
    }
}

/// Names of the columns of a layer, the number of bits of each, and their position in the header.
macro_rules! fields {
    ($($name:literal $kind:tt $($rest:expr),*;)*) => {
        &[$(Field { name: $name, kind: kind!($kind $($rest),*), read: read!($kind $($rest),*) }),*]
    };
}

macro_rules! kind {
    (whole $layer:expr, $at:expr, $bytes:expr, $shift:expr, $bits:expr) => {
        FieldKind::Whole($bits)
    };
    (flag $layer:expr, $at:expr, $mask:expr) => {
        FieldKind::Flag
    };
    (address $layer:expr, $at:expr, $bytes:expr) => {
        FieldKind::Address($bytes)
    };
}

macro_rules! read {
    (whole $layer:expr, $at:expr, $bytes:expr, $shift:expr, $bits:expr) => {
        |seen| Some(FieldValue::Whole(number($layer(seen)?, $at, $bytes)? >> $shift & ((1 << $bits) - 1)))
    };
    (flag $layer:expr, $at:expr, $mask:expr) => {
        |seen| Some(FieldValue::Flag($layer(seen)?.get($at)? & $mask != 0))
    };
    (address $layer:expr, $at:expr, $bytes:expr) => {
        |seen| $layer(seen)?.get($at..$at + $bytes).map(FieldValue::Address)
    };
}

/// All columns of headers. `whole` numbers have the layer, the first byte, the number of bytes, the number of bits
/// to the right, and the number of bits; `flag`s have byte and mask; `address`es have the first byte and the
/// length.
const OF_HEADERS: &[Field] = fields! {
    "Ethernet::source" address PacketContext::ethernet, 6, 6;
    "Ethernet::destination" address PacketContext::ethernet, 0, 6;
    "Ethernet::type" whole PacketContext::ethernet, 12, 2, 0, 16;
    "VLAN::id" whole PacketContext::vlan, 0, 2, 0, 12;
    "VLAN::priority" whole PacketContext::vlan, 0, 1, 5, 3;
    "IPv4::source" address PacketContext::v4, 12, 4;
    "IPv4::destination" address PacketContext::v4, 16, 4;
    "IPv4::ihl" whole PacketContext::v4, 0, 1, 0, 4;
    "IPv4::dscp" whole PacketContext::v4, 1, 1, 2, 6;
    "IPv4::ecn" whole PacketContext::v4, 1, 1, 0, 2;
    "IPv4::length" whole PacketContext::v4, 2, 2, 0, 16;
    "IPv4::identification" whole PacketContext::v4, 4, 2, 0, 16;
    "IPv4::fragment_offset" whole PacketContext::v4, 6, 2, 0, 13;
    "IPv4::ttl" whole PacketContext::v4, 8, 1, 0, 8;
    "IPv4::protocol" whole PacketContext::v4, 9, 1, 0, 8;
    "IPv4::checksum" whole PacketContext::v4, 10, 2, 0, 16;
    "IPv4::flags::df" flag PacketContext::v4, 6, 0x40;
    "IPv4::flags::mf" flag PacketContext::v4, 6, 0x20;
    "IPv6::source" address PacketContext::v6, 8, 16;
    "IPv6::destination" address PacketContext::v6, 24, 16;
    "IPv6::traffic_class" whole PacketContext::v6, 0, 2, 4, 8;
    "IPv6::flow_label" whole PacketContext::v6, 0, 4, 0, 20;
    "IPv6::length" whole PacketContext::v6, 4, 2, 0, 16;
    "IPv6::next_header" whole PacketContext::v6, 6, 1, 0, 8;
    "IPv6::hop_limit" whole PacketContext::v6, 7, 1, 0, 8;
    "TCP::source" whole PacketContext::tcp, 0, 2, 0, 16;
    "TCP::destination" whole PacketContext::tcp, 2, 2, 0, 16;
    "TCP::seq_number" whole PacketContext::tcp, 4, 4, 0, 32;
    "TCP::ack_number" whole PacketContext::tcp, 8, 4, 0, 32;
    "TCP::data_offset" whole PacketContext::tcp, 12, 1, 4, 4;
    "TCP::flags::ns" flag PacketContext::tcp, 12, 0x01;
    "TCP::flags::fin" flag PacketContext::tcp, 13, 0x01;
    "TCP::flags::syn" flag PacketContext::tcp, 13, 0x02;
    "TCP::flags::rst" flag PacketContext::tcp, 13, 0x04;
    "TCP::flags::psh" flag PacketContext::tcp, 13, 0x08;
    "TCP::flags::ack" flag PacketContext::tcp, 13, 0x10;
    "TCP::flags::urg" flag PacketContext::tcp, 13, 0x20;
    "TCP::flags::ece" flag PacketContext::tcp, 13, 0x40;
    "TCP::flags::cwr" flag PacketContext::tcp, 13, 0x80;
    "TCP::window_size" whole PacketContext::tcp, 14, 2, 0, 16;
    "TCP::checksum" whole PacketContext::tcp, 16, 2, 0, 16;
    "TCP::urgent_pointer" whole PacketContext::tcp, 18, 2, 0, 16;
    "UDP::source" whole PacketContext::udp, 0, 2, 0, 16;
    "UDP::destination" whole PacketContext::udp, 2, 2, 0, 16;
    "UDP::length" whole PacketContext::udp, 4, 2, 0, 16;
    "UDP::checksum" whole PacketContext::udp, 6, 2, 0, 16;
    "ICMP::type" whole PacketContext::icmp, 0, 1, 0, 8;
    "ICMP::code" whole PacketContext::icmp, 1, 1, 0, 8;
    "ICMP::checksum" whole PacketContext::icmp, 2, 2, 0, 16;
};

/// Columns of a packet as a whole.
const OF_PACKETS: &[Field] = &[
    Field { name: DIRECTION, kind: FieldKind::Text, read: |seen| seen.direction().map(FieldValue::Text) },
    Field {
        name: "protocol",
        kind: FieldKind::Text,
        read: |seen| Some(FieldValue::Text(seen.packet.protocol())),
    },
    Field {
        name: "payload",
        kind: FieldKind::Bytes,
        read: |seen| seen.packet.payload.map(FieldValue::Bytes),
    },
    Field {
        name: "length",
        kind: FieldKind::Whole(32),
        read: |seen| Some(FieldValue::Whole(seen.length.into())),
    },
];

/// The column that depends on which addresses are local.
pub(crate) const DIRECTION: &str = "direction";

impl Field {
    /// All columns of packets.
    pub(crate) fn all() -> impl Iterator<Item = &'static Field> {
        OF_HEADERS.iter().chain(OF_PACKETS)
    }

    /// The column of that name.
    pub(crate) fn find(name: &str) -> Option<&'static Field> {
        Field::all().find(|field| field.name == name)
    }

    /// The type that the column has by itself.
    pub(crate) fn data_type(&self) -> DataType {
        match self.kind {
            FieldKind::Whole(..=8) => DataType::UInt8,
            FieldKind::Whole(..=16) => DataType::UInt16,
            FieldKind::Whole(_) => DataType::UInt32,
            FieldKind::Flag => DataType::Boolean,
            FieldKind::Address(bytes) => {
                let part = |index: usize| Part::new(index.to_string(), DataType::UInt8, false);
                DataType::Struct((0..bytes).map(part).collect())
            }
            FieldKind::Text => DataType::Utf8,
            FieldKind::Bytes => DataType::Binary,
        }
    }

    /// Whether it can be read as a type: numbers as any wide enough integer type, the payload also as text.
    pub(crate) fn fits(&self, wanted: &DataType) -> bool {
        match (self.kind, wanted) {
            (FieldKind::Whole(_), wanted) => wanted.is_integer(),
            (FieldKind::Address(bytes), DataType::Struct(parts)) => {
                parts.len() == bytes && parts.iter().all(|part| part.data_type().is_integer())
            }
            (FieldKind::Bytes, DataType::Utf8) => true,
            _ => *wanted == self.data_type(),
        }
    }

    /// Appends the value of a packet to its column.
    ///
    /// # Errors
    /// The value does not fit into the type of the column.
    pub(crate) fn append(&self, seen: &PacketContext<'_>, column: &mut Column) -> Result<(), String> {
        match (self.read)(seen) {
            None => {
                column.append_null();
                Ok(())
            }
            Some(FieldValue::Whole(value)) => column.append_whole(value),
            Some(FieldValue::Flag(value)) => column.append_bool(value),
            Some(FieldValue::Text(text)) => column.append(text),
            Some(FieldValue::Bytes(bytes)) => column.append_bytes(bytes),
            Some(FieldValue::Address(address)) => {
                column.append_tuple(|index, part| part.append_whole(address[index].into()))
            }
        }
    }
}
