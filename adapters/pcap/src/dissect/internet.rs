//! IP, version 4 and 6.

use super::number;

/// An IP header and its payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Internet<'a> {
    pub(crate) is_v6: bool,
    /// The captured part of the header, without options.
    pub(crate) header: &'a [u8],
    /// Protocol of the payload, unless that began in another fragment or is truncated.
    pub(super) carries: Option<u64>,
    /// The payload, without the padding that a link appends to short packets.
    pub(super) payload: Option<&'a [u8]>,
}

impl<'a> Internet<'a> {
    /// `None` if the header length is below the minimum.
    pub(super) fn v4(bytes: &'a [u8]) -> Option<Internet<'a>> {
        const SHORTEST: usize = 20;
        let length = usize::from(bytes.first()? & 0x0f) * 4;
        if length < SHORTEST {
            return None;
        }
        let header = bytes.get(..SHORTEST).unwrap_or(bytes);
        let payload = number(bytes, 2, 2).and_then(|total| {
            let total = usize::try_from(total).ok()?;
            // The length is zero if segmentation is left to hardware (offloading).
            let end = if total < length { bytes.len() } else { total.min(bytes.len()) };
            bytes.get(length..end)
        });
        let is_first = number(bytes, 6, 2).is_some_and(|flags| flags & 0x1fff == 0);
        let carries = if is_first && payload.is_some() { number(bytes, 9, 1) } else { None };
        Some(Internet { is_v6: false, header, carries, payload })
    }

    pub(super) fn v6(bytes: &'a [u8]) -> Internet<'a> {
        const LENGTH: usize = 40;
        let header = bytes.get(..LENGTH).unwrap_or(bytes);
        let payload = number(bytes, 4, 2).and_then(|length| {
            let inside = bytes.get(LENGTH..)?;
            // Zero if the payload is too long for the field, or if segmentation is left to hardware.
            let length = usize::try_from(length).ok().filter(|length| *length > 0);
            inside.get(..length.unwrap_or(inside.len()).min(inside.len()))
        });
        let (carries, payload) = match (number(bytes, 6, 1), payload) {
            (Some(next), Some(payload)) => extended(next, payload),
            (_, payload) => (None, payload),
        };
        Internet { is_v6: true, header, carries, payload }
    }

    /// Destination address, if it was captured.
    pub(crate) fn destination(&self) -> Option<&'a [u8]> {
        if self.is_v6 { self.header.get(24..40) } else { self.header.get(16..20) }
    }
}

/// Skips the extension headers of IPv6. Returns the protocol of the payload and the payload; neither if a header
/// is truncated.
fn extended(mut next: u64, mut bytes: &[u8]) -> (Option<u64>, Option<&[u8]>) {
    const FRAGMENT: u64 = 44;
    const AUTHENTICATION: u64 = 51;
    loop {
        let length = match next {
            // Hop-by-hop and destination options, routing headers, and later extensions with the same format.
            0 | 43 | 60 | 135 | 139 | 140 => number(bytes, 1, 1).map(|units| (units + 1) * 8),
            FRAGMENT => Some(8),
            AUTHENTICATION => number(bytes, 1, 1).map(|units| (units + 2) * 4),
            _ => return (Some(next), Some(bytes)),
        };
        let is_later = next == FRAGMENT && number(bytes, 2, 2).is_some_and(|offset| offset >> 3 != 0);
        let rest = length.and_then(|length| bytes.get(usize::try_from(length).ok()?..));
        match (number(bytes, 0, 1), rest) {
            (_, Some(rest)) if is_later => return (None, Some(rest)),
            (Some(after), Some(rest)) => (next, bytes) = (after, rest),
            _ => return (None, None),
        }
    }
}
