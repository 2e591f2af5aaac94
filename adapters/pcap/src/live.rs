//! The source of packets from a network interface.

use fairstream_core::{Adapter, OptionDoc, Source, SourceError, SourceFactory, SourceRequest};

use crate::rows::LOCAL_NETWORK;

/// Opens network interfaces.
#[derive(Clone, Copy, Debug)]
pub struct LiveSources;

const OPTIONS: &[OptionDoc] = &[
    LOCAL_NETWORK,
    OptionDoc::new("filter", "", "which packets, as tcpdump is told: `tcp port 443`"),
    OptionDoc::new("promiscuous", "true", "whether to see packets that are for others"),
    OptionDoc::new("snaplen", "65535", "how many bytes of a packet to capture"),
];

impl SourceFactory for LiveSources {
    fn adapter(&self) -> Adapter {
        Adapter {
            name: "capture",
            about: if cfg!(feature = "live-capture") {
                "packets of a network interface, as they come: `capture:eth0`"
            } else {
                "packets of a network interface, as they come; not in this build, which lacks `live-capture`"
            },
            extensions: &[],
            options: OPTIONS,
        }
    }

    #[cfg(feature = "live-capture")]
    fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, SourceError> {
        interface::open(request)
    }

    #[cfg(not(feature = "live-capture"))]
    fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, SourceError> {
        let interface = &request.location;
        Err(request.cannot_open(format!(
            "this build captures no packets; build it with `--features live-capture`, or have tcpdump do it: \
             `tcpdump -i {interface} -U -w - | fairstream run SPEC pcap:-`"
        )))
    }
}

#[cfg(feature = "live-capture")]
#[path = "interface.rs"]
mod interface;
