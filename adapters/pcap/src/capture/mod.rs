//! Reads captured packets from a file or a pipe, with their positions and times. Does not dissect them.

mod blocks;
mod bytes;
mod classic;

use std::io;
use std::time::Instant;

use fairstream_core::Time;
use fairstream_files::{Input, NextRow, Place};

use self::blocks::Blocks;
use self::bytes::{CaptureBytes, Got};
use self::classic::Classic;
use crate::dissect::Link;

/// Maximum length of a packet. A larger length means that the file is damaged.
const LONGEST: usize = 16 << 20;

/// The captured bytes of a packet, with its metadata.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Captured<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) link: Link,
    pub(crate) time: Time,
    /// Length of the packet on the wire, captured or not.
    pub(crate) length: u32,
}

/// Reads packets one after another.
pub(crate) struct Packets {
    bytes: CaptureBytes,
    format: CaptureFormat,
    /// The current packet, or its error.
    current: Result<Known, String>,
    /// Number of packets read so far.
    number: u64,
    /// Offset of the end of the last packet.
    after: u64,
}

/// Metadata of a packet. Its bytes are the next of the [`CaptureBytes`].
#[derive(Clone, Copy, Debug)]
struct Known {
    link: Link,
    time: Time,
    length: u32,
    /// Start and end of its bytes, relative to the start of its record.
    start: usize,
    end: usize,
}

enum CaptureFormat {
    Classic(Classic),
    Blocks(Blocks),
}

/// The next record of a file.
enum Record {
    /// A packet in a record of this length; or its error.
    Packet(usize, Result<Known, String>),
    /// A record of this length that is no packet and has been processed.
    Other(usize),
    /// Too few bytes to decide: this many are needed.
    Needs(usize),
}

impl Packets {
    /// Reads up to the first packet, so that the format of the file is known.
    ///
    /// # Errors
    /// It cannot be read, or is no capture file.
    pub(crate) fn begin(input: Input) -> io::Result<Packets> {
        let mut bytes = CaptureBytes::new(input);
        let mark = match bytes.have(4, None)? {
            Got::All => bytes.next(4).first_chunk::<4>().copied().unwrap_or_default(),
            Got::Ended(0) => return Err(io::Error::other("it is empty")),
            _ => return Err(not_packets()),
        };
        let format = match mark {
            blocks::SECTION => CaptureFormat::Blocks(Blocks::default()),
            _ => match bytes.have(classic::HEADER, None)? {
                Got::All => {
                    let header = Classic::read(bytes.next(classic::HEADER)).map_err(io::Error::other)?;
                    bytes.skip(classic::HEADER);
                    CaptureFormat::Classic(header)
                }
                _ if Classic::is_mark(mark) => return Err(io::Error::other("it is cut off in its header")),
                _ => return Err(not_packets()),
            },
        };
        let after = bytes.offset();
        Ok(Packets { bytes, format, current: Err(String::new()), number: 0, after })
    }

    pub(crate) fn name(&self) -> &str {
        self.bytes.name()
    }

    /// Advances to the next packet. Waits for it, but not past the deadline.
    ///
    /// # Errors
    /// The file cannot be read, is truncated, or is damaged so that the position of the next packet is unknown.
    pub(crate) fn read(&mut self, deadline: Option<Instant>) -> io::Result<NextRow> {
        self.bytes.skip_current();
        loop {
            match self.step(deadline)? {
                CaptureStep::Packet(length) => {
                    self.bytes.hold(length);
                    self.after = self.bytes.offset() + length as u64;
                    return Ok(NextRow::Row);
                }
                CaptureStep::Other(length) => self.bytes.skip(length),
                CaptureStep::NotYet => return Ok(NextRow::NotYet),
                CaptureStep::End => return Ok(NextRow::End),
            }
        }
    }

    /// Processes the next record.
    fn step(&mut self, deadline: Option<Instant>) -> io::Result<CaptureStep> {
        let mut needed = 1;
        loop {
            let place = (self.number + 1, self.bytes.offset());
            match self.bytes.have(needed, deadline)? {
                Got::All => {}
                Got::NotYet => return Ok(CaptureStep::NotYet),
                Got::Stopped => return Ok(CaptureStep::End),
                Got::Ended(0) => return Ok(CaptureStep::End),
                Got::Ended(_) => {
                    let (number, offset) = place;
                    let reason = format!("it is cut off in packet {number}, which begins at byte {offset}");
                    return Err(io::Error::other(reason));
                }
            }
            let next = self.bytes.rest();
            let record = match &mut self.format {
                CaptureFormat::Classic(header) => header.record(next),
                CaptureFormat::Blocks(blocks) => blocks.record(next),
            };
            let record = record.map_err(|reason| {
                let (number, offset) = place;
                io::Error::other(format!("it is damaged at byte {offset}, before packet {number}: {reason}"))
            })?;
            match record {
                Record::Needs(more) => needed = more,
                Record::Other(length) => return Ok(CaptureStep::Other(length)),
                Record::Packet(length, packet) => {
                    self.current = packet;
                    self.number += 1;
                    return Ok(CaptureStep::Packet(length));
                }
            }
        }
    }

    /// The current packet.
    ///
    /// # Errors
    /// The error of the packet.
    pub(crate) fn packet(&self) -> Result<Captured<'_>, &str> {
        let Known { link, time, length, start, end } = *self.current.as_ref().map_err(String::as_str)?;
        let bytes = self.bytes.current().get(start..end).unwrap_or_default();
        Ok(Captured { bytes, link, time, length })
    }

    /// The number of the current packet, counted from 1; 0 before the first.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Position after the current packet. Other records may precede the next packet there.
    pub(crate) fn place(&self) -> Place {
        Place { offset: self.after, line: self.number + 1, after_return: false }
    }

    /// Seeks forwards to a packet.
    ///
    /// # Errors
    /// The file cannot be read, or is shorter than that.
    pub(crate) fn go_to(&mut self, place: Place) -> io::Result<()> {
        match &mut self.format {
            CaptureFormat::Classic(_) => self.bytes.go_to(place.offset)?,
            // The interpretation of packets depends on earlier blocks, so these are read again.
            CaptureFormat::Blocks(_) => {
                while self.bytes.offset() < place.offset {
                    match self.step(None)? {
                        CaptureStep::Packet(length) | CaptureStep::Other(length) => self.bytes.skip(length),
                        CaptureStep::NotYet | CaptureStep::End => {
                            return Err(io::ErrorKind::UnexpectedEof.into());
                        }
                    }
                }
            }
        }
        (self.number, self.after) = (place.line.saturating_sub(1), place.offset);
        Ok(())
    }
}

enum CaptureStep {
    /// A packet in a record of this length.
    Packet(usize),
    /// Another record of this length.
    Other(usize),
    NotYet,
    End,
}

fn not_packets() -> io::Error {
    io::Error::other("it is not a file of packets: neither pcap nor pcapng")
}

/// Byte order of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Order {
    #[default]
    Little,
    Big,
}

impl Order {
    /// The number at an offset; zero beyond the end.
    fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let bytes = bytes.get(at..).and_then(|bytes| bytes.first_chunk()).copied().unwrap_or_default();
        match self {
            Order::Little => u16::from_le_bytes(bytes),
            Order::Big => u16::from_be_bytes(bytes),
        }
    }

    /// The number at an offset; zero beyond the end.
    fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let bytes = bytes.get(at..).and_then(|bytes| bytes.first_chunk()).copied().unwrap_or_default();
        match self {
            Order::Little => u32::from_le_bytes(bytes),
            Order::Big => u32::from_be_bytes(bytes),
        }
    }
}

/// Converts a length, if it is within the limit.
fn length(value: u32) -> Result<usize, String> {
    usize::try_from(value)
        .ok()
        .filter(|length| *length <= LONGEST)
        .ok_or_else(|| format!("a packet of {value} bytes cannot be"))
}
