//! The position in several files, as bytes.

use fairstream_core::TimeFormat;

/// The position to resume from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesPosition {
    /// Number of files that have been opened, in the order of their first times.
    pub opened: usize,
    /// Fingerprint of these files.
    pub fingerprint: Fingerprint,
    /// The format of times.
    pub time_format: TimeFormat,
    /// For each file that has not been read to its end: its index in that order, and the number of rows read.
    pub open: Vec<(usize, u64)>,
}

/// Identifies a set of files: new files may have been added, but not among those that have been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Fingerprint {
        Fingerprint(0xcbf2_9ce4_8422_2325)
    }
}

impl Fingerprint {
    /// Adds a file, by its name and by what must not have changed.
    pub fn add(&mut self, name: &str, counts: &[u64]) {
        let counts = counts.iter().copied().flat_map(u64::to_le_bytes);
        for byte in name.bytes().chain([0]).chain(counts) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

const MARK: &[u8; 4] = b"lake";

impl FilesPosition {
    /// The position as bytes.
    pub fn written(&self) -> Vec<u8> {
        let format = self.time_format.name().as_bytes();
        let mut bytes = MARK.to_vec();
        bytes.extend((self.opened as u64).to_le_bytes());
        bytes.extend(self.fingerprint.0.to_le_bytes());
        bytes.push(u8::try_from(format.len()).unwrap_or_default());
        bytes.extend(format);
        for (rank, behind) in &self.open {
            bytes.extend((*rank as u64).to_le_bytes());
            bytes.extend(behind.to_le_bytes());
        }
        bytes
    }

    /// The position of these bytes, if they are one.
    pub fn read(bytes: &[u8]) -> Option<FilesPosition> {
        let bytes = bytes.strip_prefix(MARK)?;
        let (opened, bytes) = number(bytes)?;
        let (fingerprint, bytes) = number(bytes)?;
        let (len, bytes) = bytes.split_first()?;
        let (format, mut bytes) = bytes.split_at_checked(usize::from(*len))?;
        let mut open = Vec::new();
        while !bytes.is_empty() {
            let (rank, rest) = number(bytes)?;
            let (behind, rest) = number(rest)?;
            open.push((usize::try_from(rank).ok()?, behind));
            bytes = rest;
        }
        Some(FilesPosition {
            opened: usize::try_from(opened).ok()?,
            fingerprint: Fingerprint(fingerprint),
            time_format: std::str::from_utf8(format).ok()?.parse().ok()?,
            open,
        })
    }
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u64::from_le_bytes(*number), rest))
}
