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
    pub(crate) kind: Kind,
    read: Read,
}

type Read = for<'a> fn(&Seen<'a>) -> Option<Value<'a>>;

/// Type of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Unsigned integers of this number of bits.
    Whole(u8),
    Flag,
    /// A tuple of this number of bytes.
    Address(usize),
    Text,
    Bytes,
}

/// A packet with the context that its columns depend on.
pub(crate) struct Seen<'a> {
    pub(crate) packet: Packet<'a>,
    pub(crate) length: u32,
    pub(crate) local: &'a Networks,
}

enum Value<'a> {
    Whole(u64),
    Flag(bool),
    Address(&'a [u8]),
    Text(&'static str),
    Bytes(&'a [u8]),
}

impl<'a> Seen<'a> {
    pub(crate) fn new(captured: Captured<'a>, local: &'a Networks) -> Seen<'a> {
        let packet = Packet::new(captured.link, captured.bytes);
        Seen { packet, length: captured.length, local }
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
        Kind::Whole($bits)
    };
    (flag $layer:expr, $at:expr, $mask:expr) => {
        Kind::Flag
    };
    (address $layer:expr, $at:expr, $bytes:expr) => {
        Kind::Address($bytes)
    };
}

macro_rules! read {
    (whole $layer:expr, $at:expr, $bytes:expr, $shift:expr, $bits:expr) => {
        |seen| Some(Value::Whole(number($layer(seen)?, $at, $bytes)? >> $shift & ((1 << $bits) - 1)))
    };
    (flag $layer:expr, $at:expr, $mask:expr) => {
        |seen| Some(Value::Flag($layer(seen)?.get($at)? & $mask != 0))
    };
    (address $layer:expr, $at:expr, $bytes:expr) => {
        |seen| $layer(seen)?.get($at..$at + $bytes).map(Value::Address)
    };
}

/// All columns of headers. `whole` numbers have the layer, the first byte, the number of bytes, the number of bits
/// to the right, and the number of bits; `flag`s have byte and mask; `address`es have the first byte and the
/// length.
const OF_HEADERS: &[Field] = fields! {
    "Ethernet::source" address Seen::ethernet, 6, 6;
    "Ethernet::destination" address Seen::ethernet, 0, 6;
    "Ethernet::type" whole Seen::ethernet, 12, 2, 0, 16;
    "VLAN::id" whole Seen::vlan, 0, 2, 0, 12;
    "VLAN::priority" whole Seen::vlan, 0, 1, 5, 3;
    "IPv4::source" address Seen::v4, 12, 4;
    "IPv4::destination" address Seen::v4, 16, 4;
    "IPv4::ihl" whole Seen::v4, 0, 1, 0, 4;
    "IPv4::dscp" whole Seen::v4, 1, 1, 2, 6;
    "IPv4::ecn" whole Seen::v4, 1, 1, 0, 2;
    "IPv4::length" whole Seen::v4, 2, 2, 0, 16;
    "IPv4::identification" whole Seen::v4, 4, 2, 0, 16;
    "IPv4::fragment_offset" whole Seen::v4, 6, 2, 0, 13;
    "IPv4::ttl" whole Seen::v4, 8, 1, 0, 8;
    "IPv4::protocol" whole Seen::v4, 9, 1, 0, 8;
    "IPv4::checksum" whole Seen::v4, 10, 2, 0, 16;
    "IPv4::flags::df" flag Seen::v4, 6, 0x40;
    "IPv4::flags::mf" flag Seen::v4, 6, 0x20;
    "IPv6::source" address Seen::v6, 8, 16;
    "IPv6::destination" address Seen::v6, 24, 16;
    "IPv6::traffic_class" whole Seen::v6, 0, 2, 4, 8;
    "IPv6::flow_label" whole Seen::v6, 0, 4, 0, 20;
    "IPv6::length" whole Seen::v6, 4, 2, 0, 16;
    "IPv6::next_header" whole Seen::v6, 6, 1, 0, 8;
    "IPv6::hop_limit" whole Seen::v6, 7, 1, 0, 8;
    "TCP::source" whole Seen::tcp, 0, 2, 0, 16;
    "TCP::destination" whole Seen::tcp, 2, 2, 0, 16;
    "TCP::seq_number" whole Seen::tcp, 4, 4, 0, 32;
    "TCP::ack_number" whole Seen::tcp, 8, 4, 0, 32;
    "TCP::data_offset" whole Seen::tcp, 12, 1, 4, 4;
    "TCP::flags::ns" flag Seen::tcp, 12, 0x01;
    "TCP::flags::fin" flag Seen::tcp, 13, 0x01;
    "TCP::flags::syn" flag Seen::tcp, 13, 0x02;
    "TCP::flags::rst" flag Seen::tcp, 13, 0x04;
    "TCP::flags::psh" flag Seen::tcp, 13, 0x08;
    "TCP::flags::ack" flag Seen::tcp, 13, 0x10;
    "TCP::flags::urg" flag Seen::tcp, 13, 0x20;
    "TCP::flags::ece" flag Seen::tcp, 13, 0x40;
    "TCP::flags::cwr" flag Seen::tcp, 13, 0x80;
    "TCP::window_size" whole Seen::tcp, 14, 2, 0, 16;
    "TCP::checksum" whole Seen::tcp, 16, 2, 0, 16;
    "TCP::urgent_pointer" whole Seen::tcp, 18, 2, 0, 16;
    "UDP::source" whole Seen::udp, 0, 2, 0, 16;
    "UDP::destination" whole Seen::udp, 2, 2, 0, 16;
    "UDP::length" whole Seen::udp, 4, 2, 0, 16;
    "UDP::checksum" whole Seen::udp, 6, 2, 0, 16;
    "ICMP::type" whole Seen::icmp, 0, 1, 0, 8;
    "ICMP::code" whole Seen::icmp, 1, 1, 0, 8;
    "ICMP::checksum" whole Seen::icmp, 2, 2, 0, 16;
};

/// Columns of a packet as a whole.
const OF_PACKETS: &[Field] = &[
    Field { name: DIRECTION, kind: Kind::Text, read: |seen| seen.direction().map(Value::Text) },
    Field { name: "protocol", kind: Kind::Text, read: |seen| Some(Value::Text(seen.packet.protocol())) },
    Field { name: "payload", kind: Kind::Bytes, read: |seen| seen.packet.payload.map(Value::Bytes) },
    Field { name: "length", kind: Kind::Whole(32), read: |seen| Some(Value::Whole(seen.length.into())) },
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
            Kind::Whole(..=8) => DataType::UInt8,
            Kind::Whole(..=16) => DataType::UInt16,
            Kind::Whole(_) => DataType::UInt32,
            Kind::Flag => DataType::Boolean,
            Kind::Address(bytes) => {
                let part = |index: usize| Part::new(index.to_string(), DataType::UInt8, false);
                DataType::Struct((0..bytes).map(part).collect())
            }
            Kind::Text => DataType::Utf8,
            Kind::Bytes => DataType::Binary,
        }
    }

    /// Whether it can be read as a type: numbers as any wide enough integer type, the payload also as text.
    pub(crate) fn fits(&self, wanted: &DataType) -> bool {
        match (self.kind, wanted) {
            (Kind::Whole(_), wanted) => wanted.is_integer(),
            (Kind::Address(bytes), DataType::Struct(parts)) => {
                parts.len() == bytes && parts.iter().all(|part| part.data_type().is_integer())
            }
            (Kind::Bytes, DataType::Utf8) => true,
            _ => *wanted == self.data_type(),
        }
    }

    /// Appends the value of a packet to its column.
    ///
    /// # Errors
    /// The value does not fit into the type of the column.
    pub(crate) fn append(&self, seen: &Seen<'_>, column: &mut Column) -> Result<(), String> {
        match (self.read)(seen) {
            None => {
                column.append_null();
                Ok(())
            }
            Some(Value::Whole(value)) => column.append_whole(value),
            Some(Value::Flag(value)) => column.append_bool(value),
            Some(Value::Text(text)) => column.append(text),
            Some(Value::Bytes(bytes)) => column.append_bytes(bytes),
            Some(Value::Address(address)) => {
                column.append_tuple(|index, part| part.append_whole(address[index].into()))
            }
        }
    }
}
