//! A buffer over an input that can be inspected before bytes are consumed.

use std::io;
use std::time::Instant;

use fairstream_files::{Filled, Input};

/// The bytes that have been read and not yet consumed.
pub(super) struct CaptureBytes {
    input: Input,
    buffer: Vec<u8>,
    /// Index of the next byte in the buffer.
    start: usize,
    /// Length of the current record, which begins at the next byte.
    held: usize,
    /// Offset of `buffer[0]` in the input.
    before: u64,
    ended: bool,
}

/// Whether the requested number of bytes is available.
pub(super) enum Got {
    All,
    /// They were not available before the deadline.
    NotYet,
    /// The input has ended with only this many bytes.
    Ended(usize),
    Stopped,
}

impl CaptureBytes {
    pub(super) fn new(input: Input) -> CaptureBytes {
        CaptureBytes { input, buffer: Vec::new(), start: 0, held: 0, before: 0, ended: false }
    }

    pub(super) fn name(&self) -> &str {
        self.input.name()
    }

    /// Offset of the next byte in the input.
    pub(super) fn offset(&self) -> u64 {
        self.before + self.start as u64
    }

    /// Ensures that `count` bytes are available. Waits for them, but not past the deadline.
    pub(super) fn have(&mut self, count: usize, deadline: Option<Instant>) -> io::Result<Got> {
        while self.buffer.len() - self.start < count {
            if self.ended {
                return Ok(Got::Ended(self.buffer.len() - self.start));
            }
            self.buffer.drain(..self.start);
            self.before += self.start as u64;
            self.start = 0;
            match self.input.fill(&mut self.buffer, deadline)? {
                Filled::More => {}
                Filled::NotYet => return Ok(Got::NotYet),
                Filled::End => self.ended = true,
                Filled::Stopped => return Ok(Got::Stopped),
            }
        }
        Ok(Got::All)
    }

    /// The next bytes, which must be available by [`have`](CaptureBytes::have).
    pub(super) fn next(&self, count: usize) -> &[u8] {
        self.buffer.get(self.start..self.start + count).unwrap_or_default()
    }

    /// All bytes that have been read and not yet consumed.
    pub(super) fn rest(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    pub(super) fn skip(&mut self, count: usize) {
        self.start = (self.start + count).min(self.buffer.len());
    }

    /// Makes the next bytes the current record.
    pub(super) fn hold(&mut self, count: usize) {
        self.held = count;
    }

    pub(super) fn current(&self) -> &[u8] {
        self.next(self.held)
    }

    pub(super) fn skip_current(&mut self) {
        let held = std::mem::take(&mut self.held);
        self.skip(held);
    }

    /// Seeks forwards to an offset.
    pub(super) fn go_to(&mut self, offset: u64) -> io::Result<()> {
        if self.input.seek(offset)? {
            self.buffer.clear();
            (self.before, self.start) = (offset, 0);
            return Ok(());
        }
        while self.offset() < offset {
            let rest = usize::try_from(offset - self.offset()).unwrap_or(usize::MAX);
            let step = rest.min(1 << 16);
            match self.have(step, None)? {
                Got::All => self.skip(step),
                _ => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        Ok(())
    }
}
