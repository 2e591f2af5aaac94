//! Live packets of the loopback interface. Capturing needs privileges: if they are missing, the tests report that
//! they are skipped.

#![cfg(feature = "live-capture")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::print_stderr, reason = "a skipped test prints the reason")]

mod support;

use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use arrow::array::AsArray;
use arrow::datatypes::{DataType, UInt16Type};
use fairstream_core::{
    Options, Source, SourceContext, SourceFactory, SourceRequest, StopToken, WantedColumn,
};
use fairstream_pcap::LiveSources;

fn request(location: &str, options: &[(&str, &str)], stop: &StopToken) -> SourceRequest {
    let options: Options = options.iter().copied().collect();
    SourceRequest {
        location: location.to_owned(),
        options,
        wanted: vec![
            WantedColumn::new("UDP::destination", DataType::UInt16),
            WantedColumn::new("payload", DataType::Utf8),
            WantedColumn::new("direction", DataType::Utf8),
        ],
        context: SourceContext { stop: stop.clone(), ..SourceContext::default() },
        ..SourceRequest::default()
    }
}

/// The loopback interface, if we may capture there.
fn loopback(filter: &str, stop: &StopToken) -> Option<Box<dyn Source>> {
    let options = [("local_network", "127.0.0.0/8"), ("filter", filter)];
    match LiveSources.open(&request("lo", &options, stop)) {
        Ok(source) => Some(source),
        Err(error) => {
            eprintln!("SKIPPED: {error}");
            None
        }
    }
}

#[test]
fn packets_are_rows_as_soon_as_they_come() {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = receiver.local_addr().unwrap();
    let stop = StopToken::default();
    let Some(mut source) = loopback(&format!("udp port {}", to.port()), &stop) else { return };
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut waits = Vec::new();
    for number in 0..20 {
        let text = format!("packet {number}");
        let sent = Instant::now();
        sender.send_to(text.as_bytes(), to).unwrap();
        let batch = loop {
            let batch = source.next_batch().unwrap().unwrap();
            if !batch.is_empty() {
                break batch;
            }
            assert!(sent.elapsed() < Duration::from_secs(5), "the packet does not come");
        };
        waits.push(sent.elapsed());
        assert_eq!(batch.len(), 1);
        assert_eq!(batch.row_numbers[0], number + 1);
        assert_eq!(batch.rows.column(0).as_primitive::<UInt16Type>().value(0), to.port());
        assert_eq!(batch.rows.column(1).as_string::<i32>().value(0), text);
        assert_eq!(batch.rows.column(2).as_string::<i32>().value(0), "Incoming");
        assert!(batch.times[0] > 1_700_000_000_000_000_000, "nanoseconds since 1970");
        assert_eq!(batch.dropped, 0);
    }
    waits.sort();
    assert!(waits[10] < Duration::from_millis(100), "half of them took longer than {:?}", waits[10]);
}

#[test]
fn it_stops_while_nothing_comes() {
    let stop = StopToken::default();
    let Some(mut source) = loopback("udp port 1", &stop) else { return };
    let stopper = stop.clone();
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        stopper.stop();
    });
    let start = Instant::now();
    while let Some(batch) = source.next_batch().unwrap() {
        assert!(batch.is_empty());
    }
    assert!(start.elapsed() < Duration::from_secs(2));
    assert!(source.next_batch().unwrap().is_none());
}

#[test]
fn what_cannot_be_captured_is_refused_in_words() {
    let stop = StopToken::default();
    let refused = |location: &str, options: &[(&str, &str)]| match LiveSources
        .open(&request(location, options, &stop))
    {
        Ok(_) => panic!("{location} {options:?} is taken"),
        Err(error) => error.to_string(),
    };
    let local = ("local_network", "127.0.0.0/8");
    assert!(refused("no-such-interface", &[local]).contains("there is no interface of that name"));
    assert!(refused("lo", &[]).contains("append `?local_network="));
    assert!(refused("lo", &[local, ("snaplen", "-1")]).contains("option `snaplen=-1`"));
    assert!(refused("lo", &[local, ("promiscuous", "maybe")]).contains("option `promiscuous=maybe`"));
    if loopback("", &stop).is_some() {
        assert!(
            refused("lo", &[local, ("filter", "nonsense here")]).contains("option `filter=nonsense here`")
        );
    }
}
