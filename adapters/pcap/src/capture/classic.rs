//! The pcap format: a file header, then packets, each with its own header.

use fairstream_core::Time;

use super::{Known, Order, Record, length};
use crate::dissect::Link;

/// Length of the file header.
pub(super) const HEADER: usize = 24;

/// Length of a packet header.
const OF_PACKET: usize = 16;

/// Content of the file header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Classic {
    order: Order,
    /// Nanoseconds per unit of the fraction of a second.
    unit: i64,
    link: Link,
}

impl Classic {
    /// Whether this is a magic number of the format.
    pub(super) fn is_mark(mark: [u8; 4]) -> bool {
        kind(mark).is_some()
    }

    /// # Errors
    /// The reason why packets cannot be read from a file with that header.
    pub(super) fn read(header: &[u8]) -> Result<Classic, String> {
        let mark = header.first_chunk().copied().unwrap_or_default();
        let (order, unit) = kind(mark).ok_or("it is not a file of packets: neither pcap nor pcapng")?;
        // The upper half indicates whether frames end in a checksum, which follows the payload in any case.
        let link = Link::new(order.u32(header, 20) & 0xffff)?;
        Ok(Classic { order, unit, link })
    }

    pub(super) fn record(&self, next: &[u8]) -> Result<Record, String> {
        if next.len() < OF_PACKET {
            return Ok(Record::Needs(OF_PACKET));
        }
        let number = |at| self.order.u32(next, at);
        let captured = length(number(8))?;
        if next.len() < OF_PACKET + captured {
            return Ok(Record::Needs(OF_PACKET + captured));
        }
        let time = i64::from(number(0)) * 1_000_000_000 + i64::from(number(4)) * self.unit;
        let end = OF_PACKET + captured;
        let known = Known { link: self.link, time: Time(time), length: number(12), start: OF_PACKET, end };
        Ok(Record::Packet(end, Ok(known)))
    }
}

/// Byte order, and nanoseconds per unit of time, by the magic number of a file.
fn kind(mark: [u8; 4]) -> Option<(Order, i64)> {
    Some(match mark {
        [0xa1, 0xb2, 0xc3, 0xd4] => (Order::Big, 1000),
        [0xd4, 0xc3, 0xb2, 0xa1] => (Order::Little, 1000),
        [0xa1, 0xb2, 0x3c, 0x4d] => (Order::Big, 1),
        [0x4d, 0x3c, 0xb2, 0xa1] => (Order::Little, 1),
        _ => return None,
    })
}
