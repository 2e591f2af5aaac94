//! The source of capture files and pipes.

use std::io;
use std::time::Instant;

use fairstream_core::{
    Adapter, Cause, OptionDoc, RejectedRow, Source, SourceError, SourceFactory, SourceRequest, Time,
    TimeFormat, TimeReader,
};
use fairstream_files::{Column, Input, NextRow, Place, RowSource, Rows};

use crate::capture::Packets;
use crate::rows::{Bound, LOCAL_NETWORK};

/// Opens files of packets.
#[derive(Clone, Copy, Debug)]
pub struct PcapSources;

const OPTIONS: &[OptionDoc] = &[LOCAL_NETWORK];

impl SourceFactory for PcapSources {
    fn adapter(&self) -> Adapter {
        Adapter {
            name: "pcap",
            about: "captured packets, pcap or pcapng; `.gz` and `.zst` are decompressed, `-` is standard input",
            extensions: &[
                "pcap",
                "pcapng",
                "cap",
                "pcap.gz",
                "pcapng.gz",
                "cap.gz",
                "pcap.zst",
                "pcapng.zst",
                "cap.zst",
            ],
            options: OPTIONS,
        }
    }

    fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, SourceError> {
        let failed = |cause: Cause| request.cannot_open(cause);
        let bound = Bound::new(request)?;
        let input =
            Input::open(&request.location, &request.context.stop).map_err(|error| failed(error.into()))?;
        let packets = Packets::begin(input).map_err(|error| failed(error.into()))?;
        let wanted = bound.columns.clone();
        let rows = PcapRows { packets, bound };
        let mut source =
            RowSource::new(rows, &wanted, TimeFormat::Nanos, request.context.clone()).map_err(failed)?;
        if let Some(position) = &request.resume {
            source.go_to(position).map_err(failed)?;
        }
        Ok(Box::new(source))
    }
}

struct PcapRows {
    packets: Packets,
    bound: Bound,
}

impl Rows for PcapRows {
    fn name(&self) -> &str {
        self.packets.name()
    }

    fn next(&mut self, deadline: Option<Instant>) -> io::Result<NextRow> {
        self.packets.read(deadline)
    }

    fn line(&self) -> u64 {
        self.packets.number()
    }

    fn place(&self) -> Place {
        self.packets.place()
    }

    fn go_to(&mut self, place: Place) -> io::Result<()> {
        self.packets.go_to(place)
    }

    fn append(&mut self, columns: &mut [Column], _: &mut TimeReader) -> Result<Option<Time>, RejectedRow> {
        let row = self.packets.number();
        let captured = self.packets.packet().map_err(|reason| RejectedRow {
            row,
            column: None,
            reason: reason.to_owned(),
        })?;
        self.bound.append(captured, row, columns)
    }

    fn offers(&self) -> Vec<String> {
        Bound::offers()
    }
}
