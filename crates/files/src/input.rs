//! Reads bytes from files, pipes and standard input.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::thread;
use std::time::Instant;

use crossbeam_channel::{Receiver, bounded, never, select};
use fairstream_core::{BadOption, OptionDoc, SourceError, SourceRequest, StopToken};
use flate2::read::MultiGzDecoder;

use crate::encoding::{Decoder, Encoding};
use crate::follow::Followed;
use crate::journal::Journal;

/// The option of a file that grows.
pub const FOLLOW: OptionDoc =
    OptionDoc::new("follow", "false", "`true` waits for what is appended to the file, as `tail -F` does");

/// The option of standard input that it is written to files first.
pub const JOURNAL: OptionDoc = OptionDoc::new(
    "journal",
    "none",
    "a folder to which standard input is written before it is evaluated, so that it can be read again",
);

pub(crate) const BLOCK: usize = 256 * 1024;

/// An open input: a file, a named pipe, or standard input for `-`. A name that ends in `.gz` or
/// `.zst` is decompressed.
///
/// Waiting for a pipe ends when its [`StopToken`] is stopped.
pub struct Input {
    name: String,
    bytes: Bytes,
    block: Vec<u8>,
    text: TextDecoding,
}

/// How bytes become text.
enum TextDecoding {
    /// They are given as they are: UTF-8, or no text.
    AsIs,
    /// The encoding follows from the first bytes, of which these have been read.
    Unknown(Vec<u8>),
    /// They are decoded; the second has the bytes of a block.
    Decoded(Decoder, Vec<u8>),
}

enum Bytes {
    /// A plain file: seekable, never blocks.
    Plain(File),
    /// A compressed file, or another reader that never blocks.
    Reader(Box<dyn Read + Send>),
    /// A file that grows.
    Followed(Box<Followed>),
    /// Standard input, through a journal.
    Journalled(Box<Journal>),
    /// An input that may block is read by a separate thread.
    Piped {
        blocks: Receiver<io::Result<Vec<u8>>>,
        stopped: Receiver<()>,
        /// Standard input may be a file.
        is_live: bool,
    },
}

/// Result of waiting for bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// Bytes were appended.
    More,
    /// No bytes arrived before the deadline.
    NotYet,
    /// The input has ended.
    End,
    /// The run was stopped; the last record may be incomplete.
    Stopped,
}

/// Whether standard input was redirected from a file.
#[cfg(unix)]
fn standard_input_is_file() -> bool {
    use std::os::fd::AsFd;
    let file = io::stdin().as_fd().try_clone_to_owned().map(File::from);
    file.and_then(|file| file.metadata()).is_ok_and(|metadata| metadata.is_file())
}

#[cfg(not(unix))]
fn standard_input_is_file() -> bool {
    false
}

impl Input {
    /// Opens a path, or standard input for `-`.
    ///
    /// # Errors
    /// The file cannot be opened, or is a directory.
    pub fn open(location: &str, stop: &StopToken) -> io::Result<Input> {
        let name = if location == "-" { "standard input" } else { location };
        let bytes = if location == "-" {
            Bytes::piped(|| Ok(Box::new(io::stdin())), stop, !standard_input_is_file())?
        } else {
            let path = Path::new(location).to_owned();
            let kind = path.metadata()?.file_type();
            if kind.is_dir() {
                return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"));
            } else if kind.is_file() {
                match unpacked(&path, File::open(&path)?)? {
                    Unpacked::Plain(file) => Bytes::Plain(file),
                    Unpacked::Packed(bytes) => Bytes::Reader(bytes),
                }
            } else {
                // Opening a named pipe also blocks, until there is a writer.
                let open = move || {
                    Ok(match unpacked(&path, File::open(&path)?)? {
                        Unpacked::Plain(file) => Box::new(file),
                        Unpacked::Packed(bytes) => bytes,
                    })
                };
                Bytes::piped(open, stop, true)?
            }
        };
        Ok(Input::new(name, bytes))
    }

    /// Opens the input of a source, with the options [`FOLLOW`] and [`JOURNAL`].
    ///
    /// # Errors
    /// The input cannot be opened, or not with these options.
    pub fn of_source(request: &SourceRequest) -> Result<Input, SourceError> {
        let SourceRequest { location, options, context, .. } = request;
        let follows = options.parse(FOLLOW.name, false).map_err(|bad| request.refuse(bad))?;
        let refused = |key: &OptionDoc, reason: &str| {
            let value = options.text(key.name).unwrap_or_default().to_owned();
            request.refuse(BadOption::Value { key: key.name.to_owned(), value, reason: reason.to_owned() })
        };
        let bytes = if let Some(folder) = options.text(JOURNAL.name) {
            if location != "-" {
                return Err(refused(&JOURNAL, "only standard input has a journal; a file can be read again"));
            }
            let journal = Journal::open(Path::new(folder), io::stdin(), &context.stop);
            Bytes::Journalled(Box::new(journal.map_err(|error| request.cannot_open(error))?))
        } else if follows {
            let lower = location.to_lowercase();
            if location == "-" || lower.ends_with(".gz") || lower.ends_with(".zst") {
                return Err(refused(&FOLLOW, "only a plain file can be followed"));
            }
            let followed = Followed::open(Path::new(location), &context.stop);
            Bytes::Followed(Box::new(followed.map_err(|error| request.cannot_open(error))?))
        } else {
            return Input::open(location, &context.stop).map_err(|error| request.cannot_open(error));
        };
        let name = if location == "-" { "standard input" } else { location };
        Ok(Input::new(name, bytes))
    }

    /// What a position at this offset needs beside it; see [`set_anchor`](Input::set_anchor).
    pub fn anchor(&self, offset: u64) -> Vec<u8> {
        match &self.bytes {
            Bytes::Followed(followed) => followed.anchor(offset),
            _ => Vec::new(),
        }
    }

    /// Finds the file that a position is in. Called before [`seek`](Input::seek).
    ///
    /// # Errors
    /// There is no such file any more.
    pub fn set_anchor(&mut self, anchor: &[u8]) -> io::Result<()> {
        match &mut self.bytes {
            Bytes::Followed(followed) if !anchor.is_empty() => followed.set_anchor(anchor),
            _ => Ok(()),
        }
    }

    /// Bytes before this offset are not needed any more.
    ///
    /// # Errors
    /// They cannot be removed.
    pub fn acknowledge(&mut self, offset: u64) -> io::Result<()> {
        match &mut self.bytes {
            Bytes::Journalled(journal) => journal.acknowledge(offset),
            _ => Ok(()),
        }
    }

    /// Whether the bytes are those of several files or runs, each of which may begin with the names of columns.
    pub fn has_several_beginnings(&self) -> bool {
        matches!(self.bytes, Bytes::Followed(_) | Bytes::Journalled(_))
    }

    /// An input that reads from `reader`, which must never block.
    pub fn from_reader(name: &str, reader: impl Read + Send + 'static) -> Input {
        Input::new(name, Bytes::Reader(Box::new(reader)))
    }

    fn new(name: &str, bytes: Bytes) -> Input {
        Input { name: name.to_owned(), bytes, block: vec![0; BLOCK], text: TextDecoding::AsIs }
    }

    /// The same input as text in UTF-8. Without an encoding, UTF-16 is recognised by its byte order mark. Offsets are
    /// those of the decoded text.
    #[must_use]
    pub fn decoded(mut self, encoding: Option<Encoding>) -> Input {
        self.text = encoding.map_or(TextDecoding::Unknown(Vec::new()), TextDecoding::of);
        self
    }

    /// Name of the input in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether bytes come as they are written: from a pipe, and not from a file.
    pub fn is_live(&self) -> bool {
        match &self.bytes {
            Bytes::Piped { is_live, .. } => *is_live,
            Bytes::Followed(_) | Bytes::Journalled(_) => true,
            Bytes::Plain(_) | Bytes::Reader(_) => false,
        }
    }

    /// Appends the next bytes to `buffer`. Waits for them, but not past the deadline.
    ///
    /// # Errors
    /// The input cannot be read, or is not in the format of its extension.
    pub fn fill(&mut self, buffer: &mut Vec<u8>, deadline: Option<Instant>) -> io::Result<Filled> {
        loop {
            match &mut self.text {
                TextDecoding::AsIs => return self.read(buffer, deadline),
                TextDecoding::Unknown(start) => {
                    let mut start = std::mem::take(start);
                    let filled = self.read(&mut start, deadline);
                    let is_known = start.len() >= Encoding::MARK || matches!(filled, Ok(Filled::End));
                    if !is_known {
                        self.text = TextDecoding::Unknown(start);
                        match filled? {
                            Filled::More => continue,
                            other => return Ok(other),
                        }
                    }
                    let encoding = Encoding::of_mark(&start);
                    self.check(encoding)?;
                    self.text = TextDecoding::of(encoding);
                    match &mut self.text {
                        TextDecoding::Decoded(decoder, _) => decoder.decode(&start, buffer),
                        _ => buffer.append(&mut start),
                    }
                    if !buffer.is_empty() {
                        return Ok(Filled::More);
                    }
                }
                TextDecoding::Decoded(_, bytes) => {
                    let mut bytes = std::mem::take(bytes);
                    let filled = self.read(&mut bytes, deadline);
                    let before = buffer.len();
                    if let TextDecoding::Decoded(decoder, spare) = &mut self.text {
                        decoder.decode(&bytes, buffer);
                        if matches!(filled, Ok(Filled::End)) {
                            decoder.finish(buffer);
                        }
                        bytes.clear();
                        *spare = bytes;
                    }
                    if buffer.len() > before {
                        return Ok(Filled::More);
                    }
                    match filled? {
                        // Half of a character.
                        Filled::More => {}
                        other => return Ok(other),
                    }
                }
            }
        }
    }

    /// Positions in an input that grows are those of its bytes, which must therefore be UTF-8.
    fn check(&self, encoding: Encoding) -> io::Result<()> {
        if self.has_several_beginnings() && encoding != Encoding::Utf8 {
            let reason = "only UTF-8 can be followed or have a journal";
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        Ok(())
    }

    /// Appends the next bytes as they are.
    fn read(&mut self, buffer: &mut Vec<u8>, deadline: Option<Instant>) -> io::Result<Filled> {
        match &mut self.bytes {
            Bytes::Plain(file) => read_block(file, &mut self.block, buffer),
            Bytes::Reader(bytes) => read_block(bytes, &mut self.block, buffer),
            Bytes::Followed(followed) => followed.fill(buffer, deadline),
            Bytes::Journalled(journal) => journal.fill(buffer, deadline),
            Bytes::Piped { blocks, stopped, .. } => {
                let passed = deadline.map_or_else(never, crossbeam_channel::at);
                select! {
                    recv(blocks) -> block => match block {
                        Ok(block) => {
                            buffer.extend_from_slice(&block?);
                            Ok(Filled::More)
                        }
                        Err(_) => Ok(Filled::End),
                    },
                    recv(stopped) -> _ => Ok(Filled::Stopped),
                    recv(passed) -> _ => Ok(Filled::NotYet),
                }
            }
        }
    }

    /// Seeks to byte `offset` of a plain file that need not be decoded. Returns `false` for other inputs, which must be
    /// read up to there.
    ///
    /// # Errors
    /// The file is shorter than that.
    pub fn seek(&mut self, offset: u64) -> io::Result<bool> {
        let file = match &mut self.bytes {
            Bytes::Plain(file) => file,
            Bytes::Followed(followed) => {
                self.text = TextDecoding::AsIs;
                return followed.seek(offset).map(|()| true);
            }
            Bytes::Journalled(journal) => {
                self.text = TextDecoding::AsIs;
                return journal.seek(offset).map(|()| true);
            }
            Bytes::Reader(_) | Bytes::Piped { .. } => return Ok(false),
        };
        if matches!(self.text, TextDecoding::Unknown(_)) {
            let mut start = Vec::new();
            file.rewind()?;
            Read::by_ref(file).take(Encoding::MARK as u64).read_to_end(&mut start)?;
            file.rewind()?;
            self.text = TextDecoding::of(Encoding::of_mark(&start));
        }
        if matches!(self.text, TextDecoding::Decoded(..)) {
            return Ok(false);
        }
        if file.metadata()?.len() < offset {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        file.seek(SeekFrom::Start(offset))?;
        Ok(true)
    }
}

impl TextDecoding {
    fn of(encoding: Encoding) -> TextDecoding {
        match encoding {
            Encoding::Utf8 => TextDecoding::AsIs,
            other => TextDecoding::Decoded(Decoder::new(other), Vec::new()),
        }
    }
}

enum Unpacked {
    Plain(File),
    Packed(Box<dyn Read + Send>),
}

fn unpacked(path: &Path, file: File) -> io::Result<Unpacked> {
    let ending = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
    Ok(match ending.as_deref() {
        Some("gz") => {
            let file = io::BufReader::with_capacity(BLOCK, file);
            Unpacked::Packed(Box::new(Decompressed(MultiGzDecoder::new(file))))
        }
        Some("zst") => Unpacked::Packed(Box::new(Decompressed(zstd::Decoder::new(file)?))),
        _ => Unpacked::Plain(file),
    })
}

/// Marks errors as errors of decompression.
struct Decompressed<R>(R);

impl<R: Read> Read for Decompressed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0
            .read(buffer)
            .map_err(|error| io::Error::new(error.kind(), format!("it cannot be decompressed: {error}")))
    }
}

/// Reads once, through `block`.
fn read_block(bytes: &mut impl Read, block: &mut [u8], buffer: &mut Vec<u8>) -> io::Result<Filled> {
    loop {
        match bytes.read(block) {
            Ok(0) => return Ok(Filled::End),
            Ok(read) => {
                buffer.extend_from_slice(&block[..read]);
                return Ok(Filled::More);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

impl Bytes {
    /// Starts the reading thread. When the run is stopped, the thread stays blocked in its read and ends with the
    /// process.
    fn piped(
        open: impl FnOnce() -> io::Result<Box<dyn Read + Send>> + Send + 'static,
        stop: &StopToken,
        is_live: bool,
    ) -> io::Result<Bytes> {
        let (out, blocks) = bounded(4);
        thread::Builder::new().spawn(move || {
            let mut bytes = match open() {
                Ok(bytes) => bytes,
                Err(error) => {
                    let _ = out.send(Err(error));
                    return;
                }
            };
            let mut block = vec![0; BLOCK];
            loop {
                let mut read = Vec::new();
                let delivery = match read_block(&mut bytes, &mut block, &mut read) {
                    Ok(Filled::More) => Ok(read),
                    Ok(_) => return,
                    Err(error) => Err(error),
                };
                let failed = delivery.is_err();
                if out.send(delivery).is_err() || failed {
                    return;
                }
            }
        })?;
        let (running, stopped) = bounded(0);
        stop.on_stop(move || drop(running));
        Ok(Bytes::Piped { blocks, stopped, is_live })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read_all(input: &mut Input) -> io::Result<Vec<u8>> {
        let mut buffer = Vec::new();
        while input.fill(&mut buffer, None)? != Filled::End {}
        Ok(buffer)
    }

    #[test]
    fn the_ending_decides_about_decompression_and_any_offset_can_be_reached() {
        let dir = tempfile::tempdir().unwrap();
        let text: Vec<u8> = (0..200_000_u32).flat_map(|n| format!("{n}\n").into_bytes()).collect();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        std::fs::write(path("a.csv"), &text).unwrap();
        let mut gz =
            flate2::write::GzEncoder::new(File::create(path("a.csv.gz")).unwrap(), Default::default());
        gz.write_all(&text).unwrap();
        gz.finish().unwrap();
        std::fs::write(path("a.csv.zst"), zstd::encode_all(text.as_slice(), 1).unwrap()).unwrap();
        for name in ["a.csv", "a.csv.gz", "a.csv.zst"] {
            let stop = StopToken::default();
            assert!(read_all(&mut Input::open(&path(name), &stop).unwrap()).unwrap() == text, "{name}");
        }
        let mut input = Input::open(&path("a.csv"), &StopToken::default()).unwrap();
        assert!(input.seek(777_777).unwrap());
        assert!(read_all(&mut input).unwrap() == text[777_777..]);
        assert!(input.seek(1 << 40).is_err());
    }

    #[test]
    fn what_is_no_gzip_is_an_error_and_so_is_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.gz");
        std::fs::write(&path, "plain").unwrap();
        let stop = StopToken::default();
        assert!(read_all(&mut Input::open(path.to_str().unwrap(), &stop).unwrap()).is_err());
        assert!(Input::open(dir.path().to_str().unwrap(), &stop).is_err());
    }
}
