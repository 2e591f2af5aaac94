//! Splits bytes into lines with their positions. Does not parse them.

use std::io;
use std::time::Instant;

use fairstream_files::{Filled, Input, MAX_LINE, NextRow, Place, Skipping};

/// Reads lines one after another. Empty lines are skipped.
pub(crate) struct Lines {
    input: Input,
    max_line: usize,
    buffer: Vec<u8>,
    /// Range of the current line in the buffer.
    line: (usize, usize),
    next: usize,
    /// The buffer has been searched for a line end up to here.
    searched: usize,
    /// Offset of `buffer[0]` in the input.
    offset: u64,
    ended: bool,
    /// Whether the current line has grown too long, so that its beginning has been dropped.
    oversize: bool,
    /// Number of bytes of the current line that have been dropped.
    dropped: usize,
    fault: Option<String>,
    number: u64,
    /// Position of the line after the current one.
    place: Place,
}

impl Lines {
    pub(crate) fn new(input: Input, max_line: usize) -> Lines {
        Lines {
            input,
            max_line,
            buffer: Vec::new(),
            line: (0, 0),
            next: 0,
            searched: 0,
            offset: 0,
            ended: false,
            oversize: false,
            dropped: 0,
            fault: None,
            number: 1,
            place: Place::START,
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.input.name()
    }

    /// The bytes that are split.
    pub(crate) fn input(&self) -> &Input {
        &self.input
    }

    pub(crate) fn input_mut(&mut self) -> &mut Input {
        &mut self.input
    }

    /// Whether bytes come as they are written.
    pub(crate) fn is_live(&self) -> bool {
        self.input.is_live()
    }

    /// Advances to the next line that is not empty. Waits for it, but not past the deadline.
    pub(crate) fn read(&mut self, deadline: Option<Instant>) -> io::Result<NextRow> {
        let mut skipping = Skipping::new(deadline);
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.buffer[self.searched..]) {
                let end = self.searched + end;
                if self.complete(end, end + 1) {
                    return Ok(NextRow::Row);
                }
                continue;
            }
            self.searched = self.buffer.len();
            if self.ended {
                let end = self.buffer.len();
                let is_line = (end > self.next || self.oversize) && self.complete(end, end);
                return Ok(if is_line { NextRow::Row } else { NextRow::End });
            }
            if skipping.pause_after(self.next) {
                return Ok(NextRow::NotYet);
            }
            match self.refill(deadline)? {
                Filled::More => {}
                Filled::NotYet => return Ok(NextRow::NotYet),
                Filled::End => self.ended = true,
                // The current line may be incomplete, so it is dropped.
                Filled::Stopped => return Ok(NextRow::End),
            }
        }
    }

    /// The current line.
    pub(crate) fn text(&self) -> &[u8] {
        &self.buffer[self.line.0..self.line.1]
    }

    /// The error that concerns the current line as a whole.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// The number of the current line, counted from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Position of the line after the current one.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Seeks to the start of a line.
    pub(crate) fn go_to(&mut self, place: Place) -> io::Result<()> {
        self.buffer.clear();
        (self.next, self.searched) = (0, 0);
        if self.input.seek(place.offset)? {
            self.offset = place.offset;
        } else {
            while self.offset + (self.buffer.len() as u64) < place.offset {
                self.offset += self.buffer.len() as u64;
                self.buffer.clear();
                if self.input.fill(&mut self.buffer, None)? != Filled::More {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            self.next = usize::try_from(place.offset - self.offset).map_err(io::Error::other)?;
            self.searched = self.next;
        }
        self.place = place;
        Ok(())
    }

    /// Reads more bytes. Bytes of earlier lines are dropped, and so are those of a line that is too long.
    fn refill(&mut self, deadline: Option<Instant>) -> io::Result<Filled> {
        self.oversize |= self.buffer.len() - self.next > self.max_line;
        if self.oversize {
            self.dropped += self.buffer.len() - self.next;
            self.next = self.buffer.len();
            if self.dropped > MAX_LINE {
                let reason = format!("a line is longer than {MAX_LINE} bytes: is it text in lines?");
                return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
            }
        }
        self.buffer.drain(..self.next);
        self.offset += self.next as u64;
        (self.searched, self.next) = (self.buffer.len(), 0);
        self.input.fill(&mut self.buffer, deadline)
    }

    /// Ends a line. Returns whether it has content.
    fn complete(&mut self, end: usize, next: usize) -> bool {
        const MARK: &[u8] = b"\xEF\xBB\xBF";
        let mut start = self.next;
        if self.offset + start as u64 == 0 && self.buffer.starts_with(MARK) {
            start += MARK.len();
        }
        let line = &self.buffer[start..end];
        let is_oversize = std::mem::take(&mut self.oversize) || line.len() > self.max_line;
        self.dropped = 0;
        let is_empty = !is_oversize && line.trim_ascii().is_empty();
        self.fault = is_oversize.then(|| {
            format!(
                "it is longer than {} bytes; append `?max_row=BYTES` to the input to allow it",
                self.max_line
            )
        });
        self.line = (start, end);
        (self.next, self.searched) = (next, next);
        self.number = self.place.line;
        let offset = self.offset + next as u64;
        self.place = Place { offset, line: self.number + 1, after_return: false };
        !is_empty
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Read;

    /// A reader that returns a few bytes at a time.
    struct Dribble(Vec<u8>, usize);

    impl Read for Dribble {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let len = self.0.len().min(self.1).min(buffer.len());
            buffer[..len].copy_from_slice(&self.0[..len]);
            self.0.drain(..len);
            Ok(len)
        }
    }

    fn lines(text: &str, step: usize, max_line: usize) -> Lines {
        Lines::new(Input::from_reader("test", Dribble(text.as_bytes().to_vec(), step)), max_line)
    }

    /// The remaining lines with their numbers, each with the position after it. A line that is too long is `None`.
    fn read_all(lines: &mut Lines) -> Vec<((u64, Option<String>), Place)> {
        let mut found = Vec::new();
        while lines.read(None).unwrap() == NextRow::Row {
            let text = String::from_utf8(lines.text().to_vec()).unwrap();
            let text = lines.fault().is_none().then_some(text);
            found.push(((lines.number(), text), lines.place()));
        }
        found
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn lines_are_those_of_the_text_however_the_bytes_come(
            text in "[ab \r\n]{0,60}",
            step in 1..20_usize,
            max_line in 1..12_usize,
        ) {
            let expected: Vec<(u64, Option<String>)> = text
                .split('\n')
                .zip(1..)
                .filter(|(line, _)| line.len() > max_line || !line.trim_ascii().is_empty())
                .map(|(line, number)| (number, (line.len() <= max_line).then(|| line.to_owned())))
                .collect();
            let found = read_all(&mut lines(&text, step, max_line));
            let (found, places): (Vec<_>, Vec<_>) = found.into_iter().unzip();
            prop_assert_eq!(&found, &expected);
            for (index, place) in places.into_iter().enumerate() {
                let mut resumed = lines(&text, step, max_line);
                resumed.go_to(place).unwrap();
                let rest: Vec<_> = read_all(&mut resumed).into_iter().map(|(line, _)| line).collect();
                prop_assert_eq!(rest, &found[index + 1..]);
            }
        }
    }
}
