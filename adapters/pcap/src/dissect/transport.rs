//! Transport-layer headers.

use super::{Internet, number};

/// The captured part of a transport header.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Transport<'a> {
    Tcp(&'a [u8]),
    Udp(&'a [u8]),
    /// ICMP of either version.
    Icmp(&'a [u8]),
    Unknown,
}

/// The transport header of a packet, and its payload if the header was captured completely.
pub(super) fn open<'a>(protocol: u64, internet: Internet<'a>) -> (Transport<'a>, Option<&'a [u8]>) {
    const UDP: usize = 8;
    let bytes = internet.payload.unwrap_or_default();
    let header = |length: usize| bytes.get(..length).unwrap_or(bytes);
    match (protocol, internet.is_v6) {
        (6, _) => {
            const SHORTEST: usize = 20;
            let length = number(bytes, 12, 1).map(|offset| (offset >> 4) * 4);
            let length = length.and_then(|length| usize::try_from(length).ok());
            let payload = length.filter(|length| *length >= SHORTEST).and_then(|length| bytes.get(length..));
            (Transport::Tcp(header(SHORTEST)), payload)
        }
        (17, _) => {
            let payload = bytes.get(UDP..).zip(number(bytes, 4, 2)).map(|(rest, length)| {
                // Zero if the length is too large for the field.
                let length = usize::try_from(length).ok().and_then(|length| length.checked_sub(UDP));
                length.and_then(|length| rest.get(..length)).unwrap_or(rest)
            });
            (Transport::Udp(header(UDP)), payload)
        }
        (1, false) | (58, true) => {
            // Timestamp requests and replies have three more times.
            let is_about_time = !internet.is_v6 && matches!(bytes.first(), Some(13 | 14));
            let length = if is_about_time { 20 } else { 8 };
            (Transport::Icmp(header(8)), bytes.get(length..))
        }
        _ => (Transport::Unknown, internet.payload),
    }
}
