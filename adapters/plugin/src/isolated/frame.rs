//! Frames: the protocol between this process and a worker. A frame is two bytes that begin every frame, a tag, a length
//! and so many bytes.

use std::fmt;
use std::io::{self, Read, Write};

use fairstream_core::{BadOption, Position, RunEnd, SinkError, SourceError};
use serde::{Deserialize, Serialize};

const BEGIN: [u8; 2] = *b"fs";

/// Maximum length of a frame. A batch has some thousand rows; a worker that sends more is not waited for.
const MAX_LENGTH: u32 = 1 << 28;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Tag {
    /// To the worker: an [`OpenRequest`]. The columns that are wanted of a source follow.
    Open = b'o',
    /// A schema, as an Arrow IPC stream without batches.
    Columns = b'c',
    /// To the worker: the next batch is wanted.
    Next = b'n',
    /// To the worker: a [`WirePosition`] up to which rows are durable.
    Acknowledge = b'a',
    /// To the worker: verdicts, as an Arrow IPC stream.
    Write = b'w',
    /// To the worker: what was written is to be made durable.
    Flush = b'f',
    /// To the worker: an [`EndOfRun`].
    Finish = b'e',
    /// To the worker: whatever it does is to be cancelled. There is no answer.
    Cancel = b'x',
    /// To the worker: the plugin is to be released. There is no answer.
    Close = b'q',
    /// From the worker: a [`PluginName`].
    Opened = b'O',
    /// From the worker: rows, as an Arrow IPC stream. Their position follows.
    Batch = b'B',
    /// From the worker: a [`WirePosition`].
    Position = b'P',
    /// From the worker: there are no more rows.
    End = b'E',
    /// From the worker: done, without more to say.
    Done = b'D',
    /// From the worker: a [`WireError`].
    Error = b'X',
}

impl Tag {
    const ALL: [Tag; 15] = [
        Tag::Open,
        Tag::Columns,
        Tag::Next,
        Tag::Acknowledge,
        Tag::Write,
        Tag::Flush,
        Tag::Finish,
        Tag::Cancel,
        Tag::Close,
        Tag::Opened,
        Tag::Batch,
        Tag::Position,
        Tag::End,
        Tag::Done,
        Tag::Error,
    ];
}

/// A frame that was read.
#[derive(Debug)]
pub(super) struct WireFrame {
    pub(super) tag: Tag,
    pub(super) bytes: Vec<u8>,
}

impl WireFrame {
    /// A frame with a value as JSON.
    pub(super) fn json(tag: Tag, value: &impl Serialize) -> WireFrame {
        // A value of ours has no map with keys that are not texts, the only thing that JSON does not take.
        WireFrame { tag, bytes: serde_json::to_vec(value).unwrap_or_default() }
    }

    /// A frame without content.
    pub(super) fn empty(tag: Tag) -> WireFrame {
        WireFrame { tag, bytes: Vec::new() }
    }

    /// The value in the frame.
    pub(super) fn value<'a, T: Deserialize<'a>>(&'a self) -> Result<T, String> {
        serde_json::from_slice(&self.bytes)
            .map_err(|error| format!("a frame has an unknown content: {error}"))
    }

    /// The length, if it is not too large.
    pub(super) fn length(&self) -> Result<u32, &'static str> {
        let length = u32::try_from(self.bytes.len()).ok().filter(|length| *length <= MAX_LENGTH);
        length.ok_or("a batch of more than 256 MiB, which does not cross to another process")
    }

    /// Writes the frame at once.
    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let length = self.length().map_err(io::Error::other)?;
        to.write_all(&BEGIN)?;
        to.write_all(&[self.tag as u8])?;
        to.write_all(&length.to_le_bytes())?;
        to.write_all(&self.bytes)?;
        to.flush()
    }

    /// Reads a frame; `None` at the end. Memory is allocated as bytes arrive, not as they are announced.
    pub(super) fn read(from: &mut impl Read) -> io::Result<Option<WireFrame>> {
        let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
        let mut header = [0; 7];
        let mut read = 0;
        while read < header.len() {
            match from.read(&mut header[read..]) {
                Ok(0) if read == 0 => return Ok(None),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(some) => read += some,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let [a, b, tag, length @ ..] = header;
        if [a, b] != BEGIN {
            return Err(invalid(format!(
                "bytes that begin no frame: {:?}",
                String::from_utf8_lossy(&header)
            )));
        }
        let known = Tag::ALL.into_iter().find(|known| *known as u8 == tag);
        let tag = known.ok_or_else(|| invalid(format!("a frame of an unknown kind, {tag}")))?;
        let length = u32::from_le_bytes(length);
        if length > MAX_LENGTH {
            return Err(invalid(format!("a frame of {length} bytes, more than 256 MiB")));
        }
        let mut bytes = Vec::new();
        if from.take(length.into()).read_to_end(&mut bytes)? < length as usize {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Some(WireFrame { tag, bytes }))
    }
}

/// What is to be opened.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct OpenRequest {
    pub(super) path: String,
    pub(super) is_sink: bool,
    pub(super) options: Vec<(String, String)>,
    pub(super) max_rows: u64,
    pub(super) max_age_ms: u64,
    pub(super) resume: Option<WirePosition>,
    /// In bytes, in addition to what the worker has before it loads the plugin.
    pub(super) max_memory: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct PluginName {
    pub(super) name: String,
    pub(super) version: String,
}

/// The position of a source or a sink. A source also says what it says after a batch.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct WirePosition {
    pub(super) rows: u64,
    /// `None` of a sink that cannot be resumed.
    pub(super) resume: Option<Vec<u8>>,
    #[serde(default)]
    pub(super) dropped: u64,
    #[serde(default)]
    pub(super) is_relative: bool,
}

impl WirePosition {
    pub(super) fn of(position: &Position) -> WirePosition {
        WirePosition {
            rows: position.rows,
            resume: Some(position.resume.to_vec()),
            ..WirePosition::default()
        }
    }

    pub(super) fn position(self) -> Option<Position> {
        Some(Position { rows: self.rows, resume: self.resume?.into() })
    }
}

/// How a run ended, for a sink.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum EndOfRun {
    Complete,
    Stopped,
    Failed(String),
}

impl EndOfRun {
    pub(super) fn of(end: &RunEnd) -> EndOfRun {
        match end {
            RunEnd::Complete => EndOfRun::Complete,
            RunEnd::Stopped => EndOfRun::Stopped,
            RunEnd::Failed(reason) => EndOfRun::Failed(reason.clone()),
        }
    }

    pub(super) fn run_end(self) -> RunEnd {
        match self {
            EndOfRun::Complete => RunEnd::Complete,
            EndOfRun::Stopped => RunEnd::Stopped,
            EndOfRun::Failed(reason) => RunEnd::Failed(reason),
        }
    }
}

/// An error of the plugin.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum WireError {
    /// It returned an error.
    Failed(String),
    /// It did not keep to the contract.
    Broken(String),
    /// It does not take an option.
    Option { key: String, hint: String },
    /// A sink whose reader is gone.
    HungUp,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::Failed(reason) | WireError::Broken(reason) => f.write_str(reason),
            WireError::Option { key, hint } => write!(f, "there is no option `{key}`; {hint}"),
            WireError::HungUp => f.write_str("it has hung up"),
        }
    }
}

impl From<SourceError> for WireError {
    fn from(error: SourceError) -> WireError {
        match error {
            SourceError::Open { cause, .. } | SourceError::Read { cause, .. } => {
                WireError::Failed(cause.to_string())
            }
            SourceError::Broken { reason, .. } => WireError::Broken(reason),
            SourceError::Option { bad: BadOption::Key { key, hint }, .. } => WireError::Option { key, hint },
            other => WireError::Failed(other.to_string()),
        }
    }
}

impl From<SinkError> for WireError {
    fn from(error: SinkError) -> WireError {
        match error {
            SinkError::Open { cause, .. } | SinkError::Write { cause, .. } => {
                WireError::Failed(cause.to_string())
            }
            SinkError::Option { bad: BadOption::Key { key, hint }, .. } => WireError::Option { key, hint },
            SinkError::HungUp { .. } => WireError::HungUp,
            other => WireError::Failed(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let mut bytes = Vec::new();
        for tag in Tag::ALL {
            WireFrame { tag, bytes: vec![tag as u8; 300] }.write(&mut bytes).unwrap();
        }
        let mut rest = bytes.as_slice();
        for tag in Tag::ALL {
            let frame = WireFrame::read(&mut rest).unwrap().unwrap();
            assert_eq!((frame.tag, frame.bytes), (tag, vec![tag as u8; 300]));
        }
        assert!(WireFrame::read(&mut rest).unwrap().is_none());
        for end in 1..307 {
            assert!(WireFrame::read(&mut &bytes[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn garbage_is_no_frame() {
        for garbage in [&b"hello, world"[..], b"fs?\0\0\0\0", b"fsB\xff\xff\xff\xff", b"fsB\xff\xff\xff\x0f"]
        {
            assert!(WireFrame::read(&mut &*garbage).is_err(), "{garbage:?}");
        }
    }
}
