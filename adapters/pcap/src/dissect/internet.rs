//! IP, version 4 and 6.

use super::number;

/// An IP header, and what it says of what follows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Internet<'a> {
    pub(crate) is_v6: bool,
    /// The header without options; what was captured of it.
    pub(crate) header: &'a [u8],
    /// The protocol of what it carries, unless that began in another fragment or is cut off.
    pub(super) carries: Option<u64>,
    /// What it carries, without what a link appends to short packets.
    pub(super) payload: Option<&'a [u8]>,
}

impl<'a> Internet<'a> {
    /// `None` if the header says that it is shorter than one can be.
    pub(super) fn v4(bytes: &'a [u8]) -> Option<Internet<'a>> {
        const SHORTEST: usize = 20;
        let length = usize::from(bytes.first()? & 0x0f) * 4;
        if length < SHORTEST {
            return None;
        }
        let header = bytes.get(..SHORTEST).unwrap_or(bytes);
        let payload = number(bytes, 2, 2).and_then(|total| {
            let total = usize::try_from(total).ok()?;
            // Hardware that cuts packets for the system leaves the length to be zero.
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
            // Zero if it is too long for the field, or left to hardware.
            let length = usize::try_from(length).ok().filter(|length| *length > 0);
            inside.get(..length.unwrap_or(inside.len()).min(inside.len()))
        });
        let (carries, payload) = match (number(bytes, 6, 1), payload) {
            (Some(next), Some(payload)) => extended(next, payload),
            (_, payload) => (None, payload),
        };
        Internet { is_v6: true, header, carries, payload }
    }

    /// The address of whom it is for, if it was captured.
    pub(crate) fn destination(&self) -> Option<&'a [u8]> {
        if self.is_v6 { self.header.get(24..40) } else { self.header.get(16..20) }
    }
}

/// Passes over the headers that IPv6 has between its own and that of what it carries. What is left, and
/// the protocol of it; neither if a header is cut off.
fn extended(mut next: u64, mut bytes: &[u8]) -> (Option<u64>, Option<&[u8]>) {
    const FRAGMENT: u64 = 44;
    const AUTHENTICATION: u64 = 51;
    loop {
        let length = match next {
            // Options of every hop and of the destination, routes, and later inventions.
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
