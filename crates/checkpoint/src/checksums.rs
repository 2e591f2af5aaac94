//! Checksums of files, in the format of `sha256sum`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

/// The name of the list of checksums.
pub(crate) const NAME: &str = "SHA256SUMS";

/// SHA-256 of the files of a checkpoint, by their names in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checksums(BTreeMap<String, String>);

impl Checksums {
    pub(crate) fn insert(&mut self, name: String, sum: String) {
        self.0.insert(name, sum);
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(crate) fn written(&self) -> String {
        self.0.iter().map(|(name, sum)| format!("{sum}  {name}\n")).collect()
    }

    /// # Errors
    /// The text is no such list.
    pub(crate) fn read(text: &str) -> Result<Checksums, &'static str> {
        let line = |line: &str| {
            let (sum, name) = line.split_once("  ")?;
            let is_sum = sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit());
            (is_sum && is_name(name)).then(|| (name.to_owned(), sum.to_owned()))
        };
        let sums: Option<BTreeMap<String, String>> = text.lines().map(line).collect();
        sums.map(Checksums).ok_or("it is no list of checksums")
    }

    /// Checks every file.
    ///
    /// # Errors
    /// The first file that is missing or has another content.
    pub(crate) fn verify(&self, folder: &Path) -> Result<(), String> {
        for (name, expected) in &self.0 {
            let sum =
                of_file(&folder.join(name)).map_err(|error| format!("{name} cannot be read: {error}"))?;
            if sum != *expected {
                return Err(format!(
                    "{name} is not what was written: its SHA-256 is {sum} instead of {expected}"
                ));
            }
        }
        Ok(())
    }
}

/// Whether a name stays within a folder.
pub(crate) fn is_name(name: &str) -> bool {
    let is_part = |part: &str| !["", ".", ".."].contains(&part) && !part.contains(['\\', '\0', '\n', '\r']);
    name.split('/').all(is_part)
}

/// SHA-256 of a file.
pub(crate) fn of_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hash.finalize())),
            read => hash.update(&buffer[..read]),
        }
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A writer that hashes what goes through it.
pub(crate) struct Hashing<W> {
    inner: W,
    hash: Sha256,
}

impl<W> Hashing<W> {
    pub(crate) fn new(inner: W) -> Hashing<W> {
        Hashing { inner, hash: Sha256::new() }
    }

    /// The inner writer, and the hash of what was written.
    pub(crate) fn finish(self) -> (W, String) {
        (self.inner, hex(&self.hash.finalize()))
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
