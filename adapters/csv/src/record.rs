//! Cuts bytes into records, with the line that each begins on. Knows quoting, not types.

use std::io;
use std::time::Instant;

use csv_core::ReadRecordResult;
use fairstream_files::{Filled, Input};

/// Reads records one after another.
pub(crate) struct Records {
    input: Input,
    parser: csv_core::Reader,
    delimiter: u8,
    max_record: usize,
    /// What has been read and not parsed yet starts at `parsed`; the record under way at `begun`.
    buffer: Vec<u8>,
    begun: usize,
    parsed: usize,
    /// Offset of `buffer[0]` in the input.
    offset: u64,
    ended: bool,
    /// The current record, unquoted, its fields one behind another, and where each ends.
    text: Vec<u8>,
    written: usize,
    ends: Vec<usize>,
    fields: usize,
    /// Whether a part of the current record has been read.
    under_way: bool,
    oversize: bool,
    line: u64,
    fault: Option<String>,
}

/// What came of reading the next record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// There is a record.
    Record,
    /// The deadline passed before it was complete.
    NotYet,
    /// There is none.
    End,
}

impl Records {
    pub(crate) fn new(input: Input, delimiter: u8, max_record: usize) -> Records {
        Records {
            input,
            parser: csv_core::ReaderBuilder::new().delimiter(delimiter).build(),
            delimiter,
            max_record,
            buffer: Vec::new(),
            begun: 0,
            parsed: 0,
            offset: 0,
            ended: false,
            text: vec![0; 1024],
            written: 0,
            ends: vec![0; 32],
            fields: 0,
            under_way: false,
            oversize: false,
            line: 1,
            fault: None,
        }
    }

    /// What the user would call the input.
    pub(crate) fn name(&self) -> &str {
        self.input.name()
    }

    /// Reads the next record; waits for it, but not past the deadline.
    pub(crate) fn read(&mut self, deadline: Option<Instant>) -> io::Result<Next> {
        if !std::mem::replace(&mut self.under_way, true) {
            (self.written, self.fields, self.oversize, self.fault) = (0, 0, false, None);
        }
        loop {
            if self.parsed == self.buffer.len() && !self.ended {
                match self.refill(deadline)? {
                    Filled::More => {}
                    Filled::NotYet => return Ok(Next::NotYet),
                    Filled::End => self.ended = true,
                    // The record under way may be cut off anywhere: it is not one.
                    Filled::Stopped => return Ok(Next::End),
                }
            }
            let rest = &self.buffer[self.parsed..];
            let (result, read, written, fields) =
                self.parser.read_record(rest, &mut self.text[self.written..], &mut self.ends[self.fields..]);
            let flushed = rest.is_empty();
            self.parsed += read;
            self.written += written;
            self.fields += fields;
            if self.parsed - self.begun > self.max_record {
                self.oversize = true;
            }
            match result {
                ReadRecordResult::InputEmpty if self.oversize => self.forget(),
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull if self.oversize => self.written = 0,
                ReadRecordResult::OutputFull => self.text.resize(self.text.len() * 2, 0),
                ReadRecordResult::OutputEndsFull if self.oversize => self.fields = 0,
                ReadRecordResult::OutputEndsFull => self.ends.resize(self.ends.len() * 2, 0),
                ReadRecordResult::Record => {
                    self.complete(flushed);
                    return Ok(Next::Record);
                }
                ReadRecordResult::End => return Ok(Next::End),
            }
        }
    }

    /// The field with that index.
    pub(crate) fn field(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.text[start..self.ends[index]]
    }

    /// How many fields there are.
    pub(crate) fn len(&self) -> usize {
        self.fields
    }

    /// The line that the current record begins on, counted from 1.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// What is wrong with the current record as a whole.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// How many lines the current record runs over.
    pub(crate) fn lines(&self) -> u64 {
        1 + newlines(&self.text[..self.written])
    }

    /// Where the next record begins: offset in the input, and line.
    pub(crate) fn position(&self) -> (u64, u64) {
        (self.offset + self.parsed as u64, self.parser.line())
    }

    /// Goes to where a record begins.
    pub(crate) fn go_to(&mut self, offset: u64, line: u64) -> io::Result<()> {
        if self.input.seek(offset)? {
            self.buffer.clear();
            (self.begun, self.parsed, self.offset) = (0, 0, offset);
        } else {
            while self.offset + (self.buffer.len() as u64) < offset {
                self.parsed = self.buffer.len();
                self.begun = self.parsed;
                if self.refill(None)? != Filled::More {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            let ahead = offset.checked_sub(self.offset).ok_or(io::ErrorKind::Unsupported)?;
            self.parsed = usize::try_from(ahead).map_err(io::Error::other)?;
            self.begun = self.parsed;
        }
        self.under_way = false;
        self.parser.reset();
        self.parser.set_line(line);
        Ok(())
    }

    /// Reads on. What belongs to earlier records is forgotten.
    fn refill(&mut self, deadline: Option<Instant>) -> io::Result<Filled> {
        self.buffer.drain(..self.begun);
        self.offset += self.begun as u64;
        self.parsed -= self.begun;
        self.begun = 0;
        self.input.fill(&mut self.buffer, deadline)
    }

    /// A record that is too long need not be kept.
    fn forget(&mut self) {
        self.begun = self.parsed;
        self.written = 0;
    }

    /// Takes note of where the record began and what is wrong with it. `flushed` means that it
    /// was ended by the end of the input, not by the end of a line.
    fn complete(&mut self, flushed: bool) {
        let raw = &self.buffer[self.begun..self.parsed];
        // The parser has counted the line's end if it was the last byte it took; in front of a
        // record it may have skipped empty lines.
        let counted = u64::from(!flushed && raw.last() == Some(&b'\n'));
        let inside = if self.oversize { 0 } else { newlines(&self.text[..self.written]) };
        self.line = self.parser.line() - counted - inside;
        if self.oversize {
            self.fault = Some(format!(
                "it is longer than {} bytes; append `?max_row=BYTES` to the input to allow it, or look for a quote that is not closed",
                self.max_record
            ));
        } else if flushed && self.quote_is_open(raw) {
            self.fault = Some(match inside - u64::from(raw.last() == Some(&b'\n')) {
                0 => "it has a quote that is not closed".to_owned(),
                lines => {
                    format!("it has a quote that is not closed, which takes in the {lines} lines after it")
                }
            });
        }
        self.begun = self.parsed;
        self.under_way = false;
    }

    /// Whether the input ended within quotes.
    fn quote_is_open(&self, raw: &[u8]) -> bool {
        let opens = |(index, byte): (usize, &u8)| {
            *byte == b'"' && (index == 0 || [self.delimiter, b'\n'].contains(&raw[index - 1]))
        };
        memchr::memchr_iter(b'"', raw).count() % 2 == 1 && raw.iter().enumerate().any(opens)
    }
}

fn newlines(text: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', text).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Read;

    /// Gives its bytes a few at a time.
    struct Dribble {
        bytes: Vec<u8>,
        at: usize,
        step: usize,
    }

    impl Read for Dribble {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let rest = &self.bytes[self.at..];
            let len = rest.len().min(self.step).min(buffer.len());
            buffer[..len].copy_from_slice(&rest[..len]);
            self.at += len;
            Ok(len)
        }
    }

    fn records(bytes: &[u8], step: usize, max_record: usize) -> Records {
        let input = Input::from_reader("test", Dribble { bytes: bytes.to_vec(), at: 0, step });
        Records::new(input, b',', max_record)
    }

    /// A record with the line that it begins on.
    type Record = (u64, Vec<Vec<u8>>);

    /// Every record that is left, and after each the position.
    fn read_all(records: &mut Records) -> Vec<(Record, (u64, u64))> {
        let mut found = Vec::new();
        while records.read(None).unwrap() == Next::Record {
            let fields = (0..records.len()).map(|index| records.field(index).to_vec()).collect();
            found.push(((records.line(), fields), records.position()));
        }
        found
    }

    /// The same with the `csv` crate, which has the place where reading began: the record begins
    /// at the first byte from there on that does not end an empty line.
    fn read_with_csv(bytes: &[u8]) -> Vec<Record> {
        let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes);
        let mut record = csv::ByteRecord::new();
        let mut found = Vec::new();
        while reader.read_byte_record(&mut record).unwrap() {
            let mut start = usize::try_from(record.position().unwrap().byte()).unwrap();
            while start < bytes.len() && b"\r\n".contains(&bytes[start]) {
                start += 1;
            }
            found.push((1 + newlines(&bytes[..start]), record.iter().map(<[u8]>::to_vec).collect()));
        }
        found
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn records_are_those_of_the_csv_crate_however_the_bytes_come(
            text in "[ab,\"\n\r ]{0,60}",
            step in 1..20_usize,
        ) {
            let found = read_all(&mut records(text.as_bytes(), step, 1 << 20));
            let (found, positions): (Vec<Record>, Vec<(u64, u64)>) = found.into_iter().unzip();
            prop_assert_eq!(&found, &read_with_csv(text.as_bytes()));
            for (index, (offset, line)) in positions.into_iter().enumerate() {
                let mut resumed = records(text.as_bytes(), step, 1 << 20);
                resumed.go_to(offset, line).unwrap();
                let rest: Vec<Record> = read_all(&mut resumed).into_iter().map(|(record, _)| record).collect();
                prop_assert_eq!(&rest, &found[index + 1..]);
            }
        }
    }

    #[test]
    fn a_record_that_is_too_long_is_one_bad_record_and_is_not_kept() {
        let long = "x".repeat(5_000_000);
        let text = format!("a,b\n{long},\"{long}\"\nc,d\n");
        let mut records = records(text.as_bytes(), 100_000, 1000);
        let mut faults = Vec::new();
        while records.read(None).unwrap() == Next::Record {
            faults.push((records.line(), records.fault().is_some()));
            assert!(records.buffer.capacity() + records.text.capacity() < 2_000_000);
        }
        assert_eq!(faults, [(1, false), (2, true), (3, false)]);
    }
}
