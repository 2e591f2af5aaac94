//! Dissects the bytes of a packet into the headers of its layers, as far as they were captured. Never fails: a
//! header that is truncated or invalid is absent.

mod internet;
mod link;
mod transport;

pub(crate) use self::internet::Internet;
pub(crate) use self::link::Link;
pub(crate) use self::transport::Transport;

/// The headers of a packet. A header may be truncated anywhere: use [`bits`] and `get`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Packet<'a> {
    pub(crate) ethernet: Option<&'a [u8]>,
    /// The outermost VLAN tag, without its type.
    pub(crate) vlan: Option<&'a [u8]>,
    pub(crate) internet: Option<Internet<'a>>,
    pub(crate) transport: Option<Transport<'a>>,
    /// The bytes after the last header, if all of the header was captured.
    pub(crate) payload: Option<&'a [u8]>,
}

impl<'a> Packet<'a> {
    /// Dissects a packet that was captured on a link.
    pub(crate) fn new(link: Link, bytes: &'a [u8]) -> Packet<'a> {
        let mut packet = Packet::default();
        let Some(carried) = link.open(bytes, &mut packet) else { return packet };
        packet.payload = Some(carried.bytes);
        let Some(internet) = carried.internet() else { return packet };
        packet.internet = Some(internet);
        packet.payload = internet.payload;
        let Some(protocol) = internet.carries else { return packet };
        // A later fragment of a packet does not have the transport header.
        let (transport, payload) = transport::open(protocol, internet);
        (packet.transport, packet.payload) = (Some(transport), payload);
        packet
    }

    /// Name of the innermost known layer.
    pub(crate) fn protocol(&self) -> &'static str {
        match (self.transport, self.internet, self.ethernet) {
            (Some(Transport::Tcp(_)), ..) => "TCP",
            (Some(Transport::Udp(_)), ..) => "UDP",
            (Some(Transport::Icmp(_)), Some(Internet { is_v6: false, .. }), _) => "ICMPv4",
            (Some(Transport::Icmp(_)), ..) => "ICMPv6",
            (Some(Transport::Unknown), ..) => "Unknown",
            (None, Some(Internet { is_v6: false, .. }), _) => "IPv4",
            (None, Some(Internet { is_v6: true, .. }), _) => "IPv6",
            (None, None, Some(_)) => "Ethernet2",
            (None, None, None) => "Unknown",
        }
    }
}

/// The big-endian number in `bytes` bytes at an offset; `None` if they were not captured.
pub(crate) fn number(header: &[u8], at: usize, bytes: usize) -> Option<u64> {
    let bytes = header.get(at..at + bytes)?;
    Some(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}
