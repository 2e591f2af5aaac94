//! Captures from a network interface with libpcap.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use fairstream_core::{
    BadOption, Cause, RejectedRow, Source, SourceError, SourceRequest, StopToken, Time, TimeFormat,
    TimeReader, nearest,
};
use fairstream_files::{Column, NextRow, Place, RowSource, Rows};
use pcap::{Active, Capture, Device, Precision};

use crate::capture::Captured;
use crate::dissect::Link;
use crate::rows::Bound;

/// Interval between two polls for packets.
const PAUSE: Duration = Duration::from_millis(2);

pub(super) fn open(request: &SourceRequest) -> Result<Box<dyn Source>, SourceError> {
    let failed = |cause: Cause| request.cannot_open(cause);
    let bound = Bound::new(request)?;
    if request.resume.is_some() {
        return Err(failed("what has passed an interface cannot be gone back to".into()));
    }
    let bad_option = |bad: BadOption| request.refuse(bad);
    let promiscuous = request.options.parse("promiscuous", true).map_err(bad_option)?;
    let snaplen = request.options.parse("snaplen", 65_535_u16).map_err(bad_option)?;
    let filter = request.options.text("filter").unwrap_or_default();
    let capture = start(&request.location, promiscuous, snaplen, filter).map_err(failed)?;
    let link = u32::try_from(capture.get_datalink().0).map_err(|error| failed(error.into()))?;
    let link = Link::new(link).map_err(|reason| failed(reason.into()))?;
    let wanted = bound.columns.clone();
    let rows = InterfaceRows {
        name: request.location.clone(),
        capture,
        link,
        bound,
        stop: request.context.stop.clone(),
        current: LastPacket::default(),
        number: 0,
        bytes: 0,
        dropped: 0,
    };
    let source = RowSource::new(rows, &wanted, TimeFormat::Nanos, request.context.clone()).map_err(failed)?;
    Ok(Box::new(source))
}

fn start(name: &str, promiscuous: bool, snaplen: u16, filter: &str) -> Result<Capture<Active>, Cause> {
    let devices = Device::list()?;
    let device = devices.iter().find(|device| device.name == name).ok_or_else(|| {
        let names = || devices.iter().map(|device| device.name.as_str());
        match nearest(name, names()) {
            Some(near) => format!("there is no interface of that name; did you mean `{near}`?"),
            None => format!(
                "there is no interface of that name; there are {}",
                names().collect::<Vec<_>>().join(", ")
            ),
        }
    })?;
    let capture = Capture::from_device(device.clone())?
        .promisc(promiscuous)
        .snaplen(snaplen.into())
        .precision(Precision::Nano)
        .immediate_mode(true)
        .open()
        .map_err(|error| {
            format!("{error} (capturing takes the rights of root, or `setcap cap_net_raw+ep`)")
        })?;
    let mut capture = capture.setnonblock()?;
    if !filter.is_empty() {
        capture.filter(filter, true).map_err(|error| format!("option `filter={filter}`: {error}"))?;
    }
    Ok(capture)
}

struct InterfaceRows {
    name: String,
    capture: Capture<Active>,
    link: Link,
    bound: Bound,
    stop: StopToken,
    current: LastPacket,
    number: u64,
    /// Bytes captured so far.
    bytes: u64,
    /// Number of lost packets at the last query.
    dropped: u64,
}

/// The most recent packet.
#[derive(Default)]
struct LastPacket {
    bytes: Vec<u8>,
    time: Time,
    length: u32,
}

impl Rows for InterfaceRows {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_live(&self) -> bool {
        true
    }

    fn next(&mut self, deadline: Option<Instant>) -> io::Result<NextRow> {
        loop {
            match self.capture.next_packet() {
                Ok(packet) => {
                    let (seconds, nanos) = (packet.header.ts.tv_sec, packet.header.ts.tv_usec);
                    self.current.time = Time(seconds.saturating_mul(1_000_000_000).saturating_add(nanos));
                    self.current.length = packet.header.len;
                    self.current.bytes.clear();
                    self.current.bytes.extend_from_slice(packet.data);
                    self.bytes += packet.data.len() as u64;
                    self.number += 1;
                    return Ok(NextRow::Row);
                }
                Err(pcap::Error::TimeoutExpired) => {}
                Err(error) => return Err(io::Error::other(error)),
            }
            if self.stop.is_stopped() {
                return Ok(NextRow::End);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(NextRow::NotYet);
            }
            thread::sleep(PAUSE);
        }
    }

    fn line(&self) -> u64 {
        self.number
    }

    fn place(&self) -> Place {
        Place { offset: self.bytes, line: self.number + 1, after_return: false }
    }

    fn go_to(&mut self, _: Place) -> io::Result<()> {
        Err(io::Error::other("what has passed an interface cannot be gone back to"))
    }

    fn append(&mut self, columns: &mut [Column], _: &mut TimeReader) -> Result<Option<Time>, RejectedRow> {
        let LastPacket { bytes, time, length } = &self.current;
        let captured = Captured { bytes, link: self.link, time: *time, length: *length };
        self.bound.append(captured, self.number, columns)
    }

    fn offers(&self) -> Vec<String> {
        Bound::offers()
    }

    fn dropped(&mut self) -> u64 {
        let Ok(stats) = self.capture.stats() else { return 0 };
        let lost = u64::from(stats.dropped) + u64::from(stats.if_dropped);
        lost - std::mem::replace(&mut self.dropped, lost).min(lost)
    }
}
