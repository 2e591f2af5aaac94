//! Link-layer headers.

use super::{Internet, Packet, number};

/// Link types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Ethernet,
    /// Raw IP without a link header.
    Raw,
    /// The address family, in four bytes.
    Null,
    /// Linux cooked capture, used for captures of all interfaces.
    Cooked,
    CookedV2,
}

/// Payload of a link-layer frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carried<'a> {
    pub(super) kind: LinkKind,
    pub(super) bytes: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkKind {
    /// IP; the version is in the first byte.
    Ip,
    V4,
    V6,
    Other,
}

const V4: u64 = 0x0800;
const V6: u64 = 0x86dd;

impl Link {
    /// The link type with the number that capture files use.
    ///
    /// # Errors
    /// The link type is not supported.
    pub(crate) fn new(number: u32) -> Result<Link, String> {
        Ok(match number {
            1 => Link::Ethernet,
            12 | 14 | 101 | 228 | 229 => Link::Raw,
            0 | 108 => Link::Null,
            113 => Link::Cooked,
            276 => Link::CookedV2,
            _ => {
                return Err(format!(
                    "its link type {number} is not read; there are Ethernet (1), IP alone (101), null (0), \
                     loopback (108) and Linux cooked (113, 276)"
                ));
            }
        })
    }

    /// Records the link-layer headers in `packet` and returns the payload; `None` if the headers are truncated.
    pub(super) fn open<'a>(self, bytes: &'a [u8], packet: &mut Packet<'a>) -> Option<Carried<'a>> {
        match self {
            Link::Ethernet => {
                packet.ethernet = Some(bytes.get(..14).unwrap_or(bytes));
                untagged(number(bytes, 12, 2)?, bytes.get(14..)?, packet)
            }
            Link::Cooked => untagged(number(bytes, 14, 2)?, bytes.get(16..)?, packet),
            Link::CookedV2 => untagged(number(bytes, 0, 2)?, bytes.get(20..)?, packet),
            Link::Raw => Some(Carried { kind: LinkKind::Ip, bytes }),
            Link::Null => {
                let kind = match bytes.first_chunk::<4>()? {
                    [0, 0, 0, family] | [family, 0, 0, 0] => match family {
                        2 => LinkKind::V4,
                        // The number of IPv6 depends on the operating system.
                        10 | 23 | 24 | 28 | 30 => LinkKind::V6,
                        _ => LinkKind::Other,
                    },
                    _ => LinkKind::Other,
                };
                Some(Carried { kind, bytes: bytes.get(4..)? })
            }
        }
    }
}

/// Skips VLAN tags, and records the first.
fn untagged<'a>(mut kind: u64, mut bytes: &'a [u8], packet: &mut Packet<'a>) -> Option<Carried<'a>> {
    while matches!(kind, 0x8100 | 0x88a8 | 0x9100) {
        packet.vlan = packet.vlan.or(Some(bytes.get(..2).unwrap_or(bytes)));
        kind = number(bytes, 2, 2)?;
        bytes = bytes.get(4..)?;
    }
    let kind = match kind {
        V4 => LinkKind::V4,
        V6 => LinkKind::V6,
        _ => LinkKind::Other,
    };
    Some(Carried { kind, bytes })
}

impl<'a> Carried<'a> {
    /// The IP header, if there is one.
    pub(super) fn internet(self) -> Option<Internet<'a>> {
        let version = self.bytes.first()? >> 4;
        match (self.kind, version) {
            (LinkKind::V4 | LinkKind::Ip, 4) => Internet::v4(self.bytes),
            (LinkKind::V6 | LinkKind::Ip, 6) => Some(Internet::v6(self.bytes)),
            _ => None,
        }
    }
}
