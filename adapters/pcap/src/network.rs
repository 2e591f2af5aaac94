//! Local networks.

use std::net::IpAddr;
use std::str::FromStr;

/// Networks, each written as an address and the length of its prefix: `192.168.0.0/16,fd00::/8`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Networks(Vec<Network>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    is_v6: bool,
    /// The prefix, in the highest of 128 bits.
    bits: u128,
    mask: u128,
}

impl Networks {
    /// Whether an address of 4 or 16 bytes is in one of them.
    pub(crate) fn contain(&self, address: &[u8]) -> bool {
        let (is_v6, bits) = match (<[u8; 4]>::try_from(address), <[u8; 16]>::try_from(address)) {
            (Ok(address), _) => (false, v4(address)),
            (_, Ok(address)) => (true, u128::from_be_bytes(address)),
            _ => return false,
        };
        self.0.iter().any(|network| network.is_v6 == is_v6 && bits & network.mask == network.bits)
    }
}

fn v4(address: [u8; 4]) -> u128 {
    u128::from(u32::from_be_bytes(address)) << 96
}

impl FromStr for Networks {
    type Err = String;

    fn from_str(text: &str) -> Result<Networks, String> {
        text.split(',').map(|network| network.trim().parse()).collect::<Result<_, _>>().map(Networks)
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let bad = || format!("`{text}` is not a network; write it as `192.168.0.0/16` or `fd00::/8`");
        let (address, length) = text.split_once('/').ok_or_else(bad)?;
        let (is_v6, bits, width) = match address.parse().map_err(|_| bad())? {
            IpAddr::V4(address) => (false, v4(address.octets()), 32),
            IpAddr::V6(address) => (true, u128::from_be_bytes(address.octets()), 128),
        };
        let length: u32 = length.parse().ok().filter(|length| *length <= width).ok_or_else(bad)?;
        let mask = u128::MAX.checked_shl(128 - length).unwrap_or_default();
        if bits & !mask != 0 {
            return Err(format!(
                "`{text}` has an address with more bits than the {length} that count; write zeros behind them"
            ));
        }
        Ok(Network { is_v6, bits, mask })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_a_network_if_the_bits_that_count_are_the_same() {
        let local: Networks = "192.168.0.0/16, 10.1.2.3/32,fd00::/8".parse().unwrap();
        for (address, expected) in [
            ("192.168.255.1", true),
            ("192.169.0.1", false),
            ("10.1.2.3", true),
            ("10.1.2.4", false),
            ("fd12::1", true),
            ("fe80::1", false),
        ] {
            let bytes = match address.parse().unwrap() {
                IpAddr::V4(address) => address.octets().to_vec(),
                IpAddr::V6(address) => address.octets().to_vec(),
            };
            assert_eq!(local.contain(&bytes), expected, "{address}");
        }
        let every: Networks = "0.0.0.0/0".parse().unwrap();
        assert!(every.contain(&[1, 2, 3, 4]) && !every.contain(&[0; 16]) && !every.contain(&[0; 3]));
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in ["", "10.0.0.0", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0/8", "::/129", "10.0.0.1/8", "/8"] {
            assert!(text.parse::<Networks>().is_err(), "{text}");
        }
    }
}
