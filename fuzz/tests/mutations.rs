//! Every check holds for mutations of its corpus. `PROPTEST_CASES=100000 cargo test -p fairstream-fuzz` runs more.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::path::Path;

use fairstream_fuzz::check;
use proptest::prelude::*;
use proptest::sample::Index;

/// A change of bytes, at a position relative to their length.
#[derive(Clone, Debug)]
enum Change {
    Byte(Index, u8),
    Bit(Index, u8),
    /// A boundary value, in this number of bytes and either byte order.
    Edge(Index, i64, usize, bool),
    Remove(Index, usize),
    Repeat(Index, usize),
    /// Bytes of another file.
    Splice(Index, Index, Index, usize),
    Cut(Index),
}

fn change() -> impl Strategy<Value = Change> {
    let edges =
        vec![0, 1, -1, 127, 128, 255, 256, 32_767, 65_535, 65_536, i64::from(i32::MAX), i64::MIN, i64::MAX];
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        (any::<Index>(), 0..8_u8).prop_map(|(at, bit)| Change::Bit(at, bit)),
        (any::<Index>(), prop::sample::select(edges), prop::sample::select(vec![1, 2, 4, 8]), any::<bool>())
            .prop_map(|(at, value, bytes, big)| Change::Edge(at, value, bytes, big)),
        (any::<Index>(), 1..40_usize).prop_map(|(at, length)| Change::Remove(at, length)),
        (any::<Index>(), 1..40_usize).prop_map(|(at, length)| Change::Repeat(at, length)),
        (any::<Index>(), any::<Index>(), any::<Index>(), 1..80_usize)
            .prop_map(|(at, file, from, length)| Change::Splice(at, file, from, length)),
        any::<Index>().prop_map(Change::Cut),
    ]
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        if bytes.is_empty() {
            return;
        }
        let length = bytes.len();
        match self {
            Change::Byte(at, byte) => bytes[at.index(length)] = *byte,
            Change::Bit(at, bit) => bytes[at.index(length)] ^= 1 << bit,
            Change::Edge(at, value, width, big) => {
                let number = if *big {
                    value.to_be_bytes()[8 - width..].to_vec()
                } else {
                    value.to_le_bytes()[..*width].to_vec()
                };
                let at = at.index(length);
                bytes.iter_mut().skip(at).zip(number).for_each(|(byte, new)| *byte = new);
            }
            Change::Remove(at, many) => {
                let at = at.index(length);
                bytes.drain(at..length.min(at + many));
            }
            Change::Repeat(at, many) => {
                let at = at.index(length);
                let again = bytes[at..length.min(at + many)].to_vec();
                bytes.splice(at..at, again);
            }
            Change::Splice(at, file, from, many) => {
                let other = file.get(corpus);
                if other.is_empty() {
                    return;
                }
                let from = from.index(other.len());
                let part = other[from..other.len().min(from + many)].to_vec();
                let at = at.index(length);
                bytes.splice(at..at, part);
            }
            Change::Cut(at) => bytes.truncate(at.index(length)),
        }
    }
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

fn hold(name: &str, file: &Index, changes: &[Change]) {
    let corpus = corpus(name);
    let mut bytes = file.get(&corpus).clone();
    changes.iter().for_each(|change| change.apply(&mut bytes, &corpus));
    check(name, &bytes);
}

macro_rules! mutations {
    ($($test:ident $name:literal;)*) => {
        proptest! {
            #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
            $(
                #[test]
                fn $test(file in any::<Index>(), changes in prop::collection::vec(change(), 1..8)) {
                    hold($name, &file, &changes);
                }
            )*
        }
    };
}

mutations! {
    arrow_holds "arrow";
    csv_holds "csv";
    fairness_holds "fairness";
    json_holds "json";
    packet_holds "packet";
    parquet_holds "parquet";
    pcap_holds "pcap";
    plugin_holds "plugin";
    time_holds "time";
    worker_holds "worker";
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    /// Scripts that change few bytes: most of what many changes make is refused at once.
    #[test]
    fn state_holds(
        which in any::<u8>(),
        before in any::<u8>(),
        changes in prop::collection::vec(any::<[u8; 4]>(), 0..4),
    ) {
        let script: Vec<u8> = [which, before].into_iter().chain(changes.concat()).collect();
        check("state", &script);
    }
}
