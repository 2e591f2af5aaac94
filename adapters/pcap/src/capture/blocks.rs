//! The pcapng format: blocks, of which some are packets and some describe how to interpret packets.

use fairstream_core::Time;

use super::{Known, LONGEST, Order, Record, length};
use crate::dissect::Link;

/// First bytes of a section header block. They are the same in both byte orders.
pub(super) const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const PACKET: u32 = 6;

/// State of the current section, from the blocks so far.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    order: Order,
    interfaces: Vec<Interface>,
}

/// An interface on which packets were captured.
#[derive(Clone, Debug)]
struct Interface {
    link: Result<Link, String>,
    /// Time units per second.
    units: u128,
    /// Offset in seconds that is added to every time.
    seconds: i64,
}

impl Blocks {
    pub(super) fn record(&mut self, next: &[u8]) -> Result<Record, String> {
        const SHORTEST: usize = 12;
        if next.len() < SHORTEST {
            return Ok(Record::Needs(SHORTEST));
        }
        let is_section = next.starts_with(&SECTION);
        let order = if is_section { section_order(next)? } else { self.order };
        let total = order.u32(next, 4);
        let length = usize::try_from(total).unwrap_or(usize::MAX);
        if length < SHORTEST || !length.is_multiple_of(4) || length > LONGEST + (1 << 16) {
            return Err(format!("a block of {total} bytes cannot be"));
        }
        if next.len() < length {
            return Ok(Record::Needs(length));
        }
        let block = &next[..length];
        if order.u32(block, length - 4) != total {
            return Err(
                "a block says at its end that it is of another length than at its beginning".to_owned()
            );
        }
        if is_section {
            *self = Blocks { order, interfaces: Vec::new() };
            return Ok(Record::Other(length));
        }
        Ok(match order.u32(block, 0) {
            INTERFACE => {
                let interface = self.interface(&block[8..length - 4])?;
                self.interfaces.push(interface);
                Record::Other(length)
            }
            PACKET | OLD_PACKET => Record::Packet(length, self.packet(block)?),
            SIMPLE_PACKET => {
                Record::Packet(length, Err("it is a simple packet, which has no time".to_owned()))
            }
            _ => Record::Other(length),
        })
    }

    fn interface(&self, body: &[u8]) -> Result<Interface, String> {
        const RESOLUTION: u16 = 9;
        const OFFSET: u16 = 14;
        const FIXED: usize = 8;
        let mut interface =
            Interface { link: Link::new(self.order.u16(body, 0).into()), units: 1_000_000, seconds: 0 };
        let mut options = body.get(FIXED..).ok_or("an interface that says nothing of itself")?;
        while options.len() >= 4 {
            let (code, length) = (self.order.u16(options, 0), usize::from(self.order.u16(options, 2)));
            let value = options.get(4..4 + length).ok_or("an option that is longer than its block")?;
            match (code, value) {
                (0, _) => break,
                (RESOLUTION, [resolution, ..]) => {
                    let (base, power) =
                        if resolution & 0x80 == 0 { (10_u128, resolution) } else { (2, resolution) };
                    let units = base.checked_pow(u32::from(power & 0x7f));
                    interface.units =
                        units.ok_or_else(|| format!("a unit of time that is 1/{base}^{} s", power & 0x7f))?;
                }
                (OFFSET, value) => {
                    let (low, high) = match self.order {
                        Order::Little => (0, 4),
                        Order::Big => (4, 0),
                    };
                    let [low, high] = [low, high].map(|at| u64::from(self.order.u32(value, at)));
                    interface.seconds = (high << 32 | low).cast_signed();
                }
                _ => {}
            }
            options = options.get(4 + length.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(interface)
    }

    /// Describes the packet in a block, or its error.
    fn packet(&self, block: &[u8]) -> Result<Result<Known, String>, String> {
        const DATA: usize = 28;
        let number = |at| self.order.u32(block, at);
        let index = match number(0) {
            PACKET => number(8),
            _ => self.order.u16(block, 8).into(),
        };
        let captured = length(number(20))?;
        if DATA + captured > block.len().saturating_sub(4) {
            return Err(format!("a packet of {captured} bytes in a block of {}", block.len()));
        }
        let interface = usize::try_from(index).ok().and_then(|index| self.interfaces.get(index));
        let Some(interface) = interface else {
            let known = self.interfaces.len();
            return Ok(Err(format!(
                "it is from interface {index}, of which nothing is said before ({known} are known)"
            )));
        };
        let link = match &interface.link {
            Ok(link) => *link,
            Err(reason) => return Ok(Err(reason.clone())),
        };
        let units = u64::from(number(12)) << 32 | u64::from(number(16));
        Ok(match interface.time(units) {
            Some(time) => Ok(Known { link, time, length: number(24), start: DATA, end: DATA + captured }),
            None => Err("its time is outside the years 1677 to 2262".to_owned()),
        })
    }
}

impl Interface {
    fn time(&self, units: u64) -> Option<Time> {
        const SECOND: i128 = 1_000_000_000;
        let (units, in_second) = (u128::from(units), self.units);
        let seconds = i128::try_from(units / in_second).ok()? + i128::from(self.seconds);
        let fraction = (units % in_second).checked_mul(SECOND.cast_unsigned())? / in_second;
        let nanos = seconds.checked_mul(SECOND)?.checked_add(i128::try_from(fraction).ok()?)?;
        i64::try_from(nanos).ok().map(Time)
    }
}

fn section_order(block: &[u8]) -> Result<Order, String> {
    match block.get(8..12) {
        Some([0x1a, 0x2b, 0x3c, 0x4d]) => Ok(Order::Big),
        Some([0x4d, 0x3c, 0x2b, 0x1a]) => Ok(Order::Little),
        _ => Err("a section that does not say in which order its bytes are".to_owned()),
    }
}
