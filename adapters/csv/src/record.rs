//! Splits bytes into records, with the line that each begins on. Handles quoting, not types.
//!
//! csv-core, the parser of the `csv` crate, defines what a record is. A record that is one whole line without
//! quotes, as most are, takes a fast path: it is split at its delimiters inside the buffer, with the same result
//! as the parser. That is faster, as nothing is copied and such a record has no errors to check.
//!
//! A quote that is not closed would make the parser take in every line after it. So a record that spans several lines
//! is given up as soon as its quotes cannot be meant as they are ([`QuoteScan`]): reading resumes at the next line that
//! is a record by itself, and the lines before it are one bad record.

use std::io;
use std::time::Instant;

use csv_core::ReadRecordResult;
use fairstream_files::{Filled, Input, MAX_LINE, NextRow, Place, Skipping};

use crate::quotes::{QuoteFault, QuoteScan, fields_of_line, is_line_end};

/// Delimiters besides the comma that files are written with, the likeliest last.
const OTHER_DELIMITERS: [u8; 3] = [b'|', b'\t', b';'];

/// Reads records one after another.
pub(crate) struct Records {
    input: Input,
    parser: csv_core::Reader,
    delimiter: u8,
    limits: Limits,
    /// Number of fields of a record, once it is known.
    columns: Option<usize>,
    /// Bytes that have been read. Those not parsed yet start at `parsed`; the current record starts at `begun`.
    buffer: Vec<u8>,
    begun: usize,
    parsed: usize,
    /// Offset of `buffer[0]` in the input.
    offset: u64,
    ended: bool,
    /// The current record, unquoted, its fields concatenated, and the end of each field.
    text: Vec<u8>,
    written: usize,
    ends: Vec<usize>,
    fields: usize,
    /// Start of the current record in the buffer if it took the fast path; its fields are separated by the
    /// delimiter.
    plain: Option<usize>,
    /// The bytes that are special to the parser: delimiter, quote, line ends.
    is_sign: [bool; 256],
    /// Whether a part of the current record has been read.
    under_way: bool,
    oversize: bool,
    quotes: QuoteScan,
    /// Lines that are being skipped because of a quote.
    region: Option<Region>,
    fault: Option<String>,
    /// The line that the current record begins on; known once its first bytes have been read.
    line: Option<u64>,
    /// Number of line ends within it, its own end included.
    line_ends: u64,
    /// Number of lines that it spans.
    lines: u64,
    /// Current line number, and whether the last byte was a carriage return.
    reached: (u64, bool),
    /// Position of the next record.
    next: Place,
}

/// Maximum sizes of a record in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Of any record.
    pub(crate) record: usize,
    /// Of a record that spans several lines.
    pub(crate) lines: usize,
}

impl Limits {
    /// The same size for all records.
    pub(crate) fn of(bytes: usize) -> Limits {
        Limits { record: bytes, lines: bytes }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { record: 16 << 20, lines: 64 << 10 }
    }
}

/// Lines from a faulty quote up to the next line that is a record by itself.
struct Region {
    fault: QuoteFault,
    /// The line of the quote.
    quote_line: u64,
    /// Whether the current line is part of the region in any case.
    is_bad_line: bool,
    /// The current line has been searched for its end up to here in the buffer.
    searched: usize,
    /// Whether the line of the quote has been passed, and the number of bytes since then.
    has_next_line: bool,
    bytes: usize,
}

/// Bytes that the parser is given at once: what is parsed beyond a faulty quote is parsed again.
const STEP: usize = 16 << 10;

impl Records {
    pub(crate) fn new(input: Input, delimiter: u8, limits: Limits) -> Records {
        let mut is_sign = [false; 256];
        [delimiter, b'"', b'\n', b'\r'].iter().for_each(|sign| is_sign[usize::from(*sign)] = true);
        Records {
            input,
            parser: csv_core::ReaderBuilder::new().delimiter(delimiter).build(),
            delimiter,
            limits,
            columns: None,
            buffer: Vec::new(),
            begun: 0,
            parsed: 0,
            offset: 0,
            ended: false,
            text: vec![0; 1024],
            written: 0,
            ends: vec![0; 32],
            fields: 0,
            plain: None,
            is_sign,
            under_way: false,
            oversize: false,
            quotes: QuoteScan::default(),
            region: None,
            fault: None,
            line: None,
            line_ends: 0,
            lines: 0,
            reached: (1, false),
            next: Place::START,
        }
    }

    /// Name of the input in messages.
    pub(crate) fn name(&self) -> &str {
        self.input.name()
    }

    /// The bytes that are read as records.
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

    /// Says how many fields a record has.
    pub(crate) fn expect_fields(&mut self, columns: usize) {
        self.columns = Some(columns);
    }

    /// Reads the next record. Waits for it, but not past the deadline.
    pub(crate) fn read(&mut self, deadline: Option<Instant>) -> io::Result<NextRow> {
        if !self.under_way && self.read_plain().is_some() {
            return Ok(NextRow::Row);
        }
        let mut skipping = Skipping::new(deadline);
        if !std::mem::replace(&mut self.under_way, true) {
            self.plain = None;
            (self.written, self.fields, self.oversize, self.fault) = (0, 0, false, None);
            (self.line, self.line_ends) = (None, 0);
        }
        loop {
            if self.region.is_some() {
                return self.skip_region(deadline, &mut skipping);
            }
            // Removes a complete UTF-8 byte order mark at the beginning.
            let at_start = self.offset == 0 && self.parsed == 0 && self.buffer.len() < 3;
            if (at_start || self.parsed == self.buffer.len()) && !self.ended {
                if self.line.is_none() && skipping.pause_after(self.buffer.len()) {
                    return Ok(NextRow::NotYet);
                }
                match self.refill(deadline)? {
                    Filled::More if at_start => continue,
                    Filled::More => {}
                    Filled::NotYet => return Ok(NextRow::NotYet),
                    Filled::End => self.ended = true,
                    // The current record may be incomplete, so it is dropped.
                    Filled::Stopped => return Ok(NextRow::End),
                }
            }
            if self.line.is_none() && (self.offset, self.parsed) != (0, 0) {
                // The parser would skip them as well, but not as fast.
                let rest = &self.buffer[self.parsed..];
                self.parsed += rest.iter().position(|byte| !is_line_end(*byte)).unwrap_or(rest.len());
                self.pass_empty_lines();
                if self.parsed == self.buffer.len() && !self.ended {
                    continue;
                }
            }
            let rest = &self.buffer[self.parsed..];
            let flushed = rest.is_empty();
            let rest = &rest[..rest.len().min(STEP)];
            let (result, read, written, fields) =
                self.parser.read_record(rest, &mut self.text[self.written..], &mut self.ends[self.fields..]);
            let before = self.parsed;
            self.parsed += read;
            self.written += written;
            self.fields += fields;
            self.pass_empty_lines();
            if self.line.is_some() {
                let from = before.max(self.begun);
                let scanned = &self.buffer[from..self.parsed];
                self.quotes.scan(scanned, self.offset + from as u64);
                if flushed && matches!(result, ReadRecordResult::Record) {
                    self.quotes.end();
                }
                if self.quotes.fault().is_some() {
                    self.begin_region();
                    continue;
                }
            }
            self.oversize |= self.parsed - self.begun > self.limits.record;
            match result {
                ReadRecordResult::InputEmpty if self.oversize => self.forget()?,
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull if self.oversize => self.written = 0,
                ReadRecordResult::OutputFull => self.text.resize(self.text.len() * 2, 0),
                ReadRecordResult::OutputEndsFull if self.oversize => self.fields = 0,
                ReadRecordResult::OutputEndsFull => self.ends.resize(self.ends.len() * 2, 0),
                ReadRecordResult::Record => {
                    self.complete();
                    return Ok(NextRow::Row);
                }
                ReadRecordResult::End => return Ok(NextRow::End),
            }
        }
    }

    /// Drops empty lines before the record, which are not part of it.
    fn pass_empty_lines(&mut self) {
        if self.line.is_some() {
            return;
        }
        let raw = &self.buffer[self.begun..self.parsed];
        let empty = raw.iter().take_while(|byte| is_line_end(**byte)).count();
        if let Some(last) = empty.checked_sub(1) {
            self.reached = (self.reached.0 + line_ends(&raw[..empty], self.reached.1), raw[last] == b'\r');
        }
        self.begun += empty;
        if empty < raw.len() {
            self.line = Some(self.reached.0);
            let limits = (self.limits.lines, self.columns);
            self.quotes = QuoteScan::new(self.delimiter, self.offset + self.begun as u64, limits);
        }
    }

    /// Gives up the current record because of a quote. Its first line, up to that of the quote, is bad in any case.
    fn begin_region(&mut self) {
        let Some(fault) = self.quotes.fault() else { return };
        let quote = usize::try_from(self.quotes.place_of_fault().saturating_sub(self.offset));
        let quote = quote.unwrap_or_default().clamp(self.begun, self.parsed);
        let before = &self.buffer[self.begun..quote];
        self.reached = (self.reached.0 + line_ends(before, false), false);
        self.region = Some(Region {
            fault,
            quote_line: self.reached.0,
            is_bad_line: true,
            searched: quote,
            has_next_line: false,
            bytes: 0,
        });
        (self.begun, self.parsed) = (quote, quote);
        self.parser.reset();
    }

    /// Skips lines up to the next one that is a record by itself. The lines before it are the current record.
    fn skip_region(&mut self, deadline: Option<Instant>, skipping: &mut Skipping) -> io::Result<NextRow> {
        let Some(mut region) = self.region.take() else { return Ok(NextRow::NotYet) };
        loop {
            // The line feed of a line end whose carriage return has been passed.
            if self.reached.1 && self.buffer.get(self.parsed) == Some(&b'\n') {
                (self.begun, self.parsed) = (self.parsed + 1, self.parsed + 1);
                self.reached.1 = false;
                region.searched = region.searched.max(self.parsed);
            }
            // A region that nothing ends is reported piece by piece.
            if region.bytes > self.limits.record && !region.is_bad_line {
                self.complete_region(&region, self.reached.0 - 1);
                return Ok(NextRow::Row);
            }
            let found = memchr::memchr2(b'\n', b'\r', &self.buffer[region.searched..]);
            let end = match found {
                Some(found) => region.searched + found,
                None if self.ended => self.buffer.len(),
                None => {
                    region.searched = self.buffer.len();
                    if self.buffer.len() - self.parsed > self.limits.record {
                        region.bytes += self.buffer.len() - self.parsed;
                        (region.is_bad_line, self.reached.1) = (true, false);
                        (self.begun, self.parsed) = (self.buffer.len(), self.buffer.len());
                        check_line(region.bytes)?;
                    }
                    let begun = self.begun;
                    let has_to_pause = skipping.pause_after(self.buffer.len() - begun);
                    let filled = if has_to_pause { Ok(Filled::NotYet) } else { self.refill(deadline) };
                    region.searched -= begun - self.begun;
                    match filled {
                        Ok(Filled::More) => continue,
                        Ok(Filled::End) => {
                            self.ended = true;
                            continue;
                        }
                        Ok(Filled::NotYet) => {
                            self.region = Some(region);
                            return Ok(NextRow::NotYet);
                        }
                        Ok(Filled::Stopped) => return Ok(NextRow::End),
                        Err(error) => return Err(error),
                    }
                }
            };
            let line = &self.buffer[self.parsed..end];
            let is_end = end == self.buffer.len();
            let is_record = !region.is_bad_line
                && line.len() <= self.limits.record
                && fields_of_line(line, self.delimiter)
                    .is_some_and(|fields| self.columns.is_none_or(|columns| fields == columns));
            if is_record || is_end && line.is_empty() && !region.is_bad_line {
                self.complete_region(&region, self.reached.0 - 1);
                return Ok(NextRow::Row);
            }
            if is_end {
                (self.begun, self.parsed) = (end, end);
                self.complete_region(&region, self.reached.0);
                return Ok(NextRow::Row);
            }
            let length = if region.has_next_line { region.bytes + line.len() + 1 } else { 0 };
            (region.has_next_line, region.bytes) = (true, length);
            region.is_bad_line = false;
            self.reached = (self.reached.0 + 1, self.buffer[end] == b'\r');
            (self.begun, self.parsed, region.searched) = (end + 1, end + 1, end + 1);
        }
    }

    /// Ends the current record, which is a region of bad lines up to that one.
    fn complete_region(&mut self, region: &Region, last: u64) {
        let first = self.line();
        self.fault = Some(region.fault.reason(region.quote_line, (first, last), self.limits.lines));
        (self.fields, self.written, self.lines) = (0, 0, last + 1 - first);
        self.finish();
    }

    /// Fast path: splits the next record inside the buffer if it is one whole line without quotes. Otherwise only
    /// state is changed that the parser overwrites. The first record, which may have a byte order mark before it,
    /// is left to the parser.
    fn read_plain(&mut self) -> Option<()> {
        if self.offset == 0 && self.parsed == 0 {
            return None;
        }
        let rest = &self.buffer[self.parsed..];
        let (mut at, mut fields) = (0, 0);
        let next = loop {
            at += rest[at..].iter().position(|byte| self.is_sign[usize::from(*byte)])?;
            let next = match rest[at] {
                b'\n' => Some(at + 1),
                // A carriage return may be a line end by itself, or its line feed may not have been read yet.
                b'\r' if rest.get(at + 1) == Some(&b'\n') => Some(at + 2),
                byte if byte == self.delimiter => None,
                _ => return None,
            };
            match self.ends.get_mut(fields) {
                Some(end) => *end = at,
                None => self.ends.push(at),
            }
            fields += 1;
            match next {
                Some(next) => break next,
                None => at += 1,
            }
        };
        // Empty lines are skipped by the parser, and overlong records are reported by it.
        if at == 0 || next > self.limits.record {
            return None;
        }
        let line = self.reached.0;
        (self.plain, self.fields, self.fault, self.oversize) = (Some(self.parsed), fields, None, false);
        (self.line, self.line_ends, self.lines) = (Some(line), 1, 1);
        self.parsed += next;
        self.begun = self.parsed;
        self.reached = (line + 1, false);
        self.next = Place { offset: self.offset + self.parsed as u64, line: line + 1, after_return: false };
        Some(())
    }

    /// If the first record has one field only, which another of the [usual delimiters](OTHER_DELIMITERS) splits, starts
    /// over with that one, and returns whether it did. To be called before a second record is read.
    pub(crate) fn try_other_delimiters(&mut self) -> bool {
        // A first record that is longer than what is read at once is left as it is.
        if self.fields != 1 || self.offset != 0 {
            return false;
        }
        let raw = &self.buffer[..self.parsed];
        let count = |delimiter: &u8| {
            let mut quoted = false;
            let is_outside = |byte: &&u8| {
                quoted ^= **byte == b'"';
                !quoted && **byte == *delimiter
            };
            raw.iter().filter(is_outside).count()
        };
        let likeliest =
            OTHER_DELIMITERS.into_iter().max_by_key(count).filter(|delimiter| count(delimiter) > 0);
        let Some(delimiter) = likeliest else { return false };
        self.is_sign[usize::from(self.delimiter)] = false;
        self.is_sign[usize::from(delimiter)] = true;
        self.delimiter = delimiter;
        self.parser = csv_core::ReaderBuilder::new().delimiter(delimiter).build();
        (self.begun, self.parsed, self.ended) = (0, 0, false);
        (self.reached, self.next, self.under_way) = ((1, false), Place::START, false);
        self.region = None;
        true
    }

    /// The field with that index.
    #[inline]
    pub(crate) fn field(&self, index: usize) -> &[u8] {
        let (record, between) = match self.plain {
            Some(begin) => (&self.buffer[begin..], 1),
            None => (self.text.as_slice(), 0),
        };
        let start = if index == 0 { 0 } else { self.ends[index - 1] + between };
        &record[start..self.ends[index]]
    }

    /// The number of fields.
    pub(crate) fn len(&self) -> usize {
        self.fields
    }

    /// The line that the current record begins on, counted from 1.
    pub(crate) fn line(&self) -> u64 {
        self.line.unwrap_or(self.next.line)
    }

    /// The error that concerns the current record as a whole.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Whether the input ends with the current record, without a line end.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.ended
            && self.parsed == self.buffer.len()
            && self.plain.is_none()
            && self.lines == self.line_ends + 1
    }

    /// Number of lines that the current record spans.
    pub(crate) fn lines(&self) -> u64 {
        self.lines
    }

    /// Position after the last complete record.
    pub(crate) fn place(&self) -> Place {
        self.next
    }

    /// Seeks to the start of a record.
    pub(crate) fn go_to(&mut self, place: Place) -> io::Result<()> {
        if self.input.seek(place.offset)? {
            self.buffer.clear();
            (self.begun, self.parsed, self.offset) = (0, 0, place.offset);
        } else {
            while self.offset + (self.buffer.len() as u64) < place.offset {
                self.begun = self.buffer.len();
                self.parsed = self.begun;
                if self.refill(None)? != Filled::More {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            let ahead = place.offset.checked_sub(self.offset).ok_or(io::ErrorKind::Unsupported)?;
            self.begun = usize::try_from(ahead).map_err(io::Error::other)?;
            self.parsed = self.begun;
        }
        self.under_way = false;
        self.region = None;
        self.next = place;
        self.reached = (place.line, place.after_return);
        self.parser.reset();
        Ok(())
    }

    /// Reads more bytes. Bytes of earlier records are dropped.
    fn refill(&mut self, deadline: Option<Instant>) -> io::Result<Filled> {
        self.buffer.drain(..self.begun);
        self.offset += self.begun as u64;
        self.parsed -= self.begun;
        self.begun = 0;
        self.input.fill(&mut self.buffer, deadline)
    }

    /// Drops the bytes of a record that is too long.
    fn forget(&mut self) -> io::Result<()> {
        self.count_lines();
        self.begun = self.parsed;
        self.written = 0;
        check_line(self.quotes.length(self.offset + self.parsed as u64))
    }

    /// Records the line of the record and its errors.
    fn complete(&mut self) {
        self.count_lines();
        let raw = &self.buffer[self.begun..self.parsed];
        let more = self.line_ends - u64::from(raw.last().is_some_and(|byte| is_line_end(*byte)));
        self.fault = if self.oversize {
            Some(format!(
                "it is longer than {} bytes; append `?max_row=BYTES` to the input to allow it, or look for a quote that is not closed",
                self.limits.record
            ))
        } else if self.quotes.is_open() {
            Some("it has a quote that is not closed: is the input cut off?".to_owned())
        } else if self.quotes.has_text_behind() {
            Some(
                "it has text right behind a closing quote; a quote inside quotes is written twice".to_owned(),
            )
        } else {
            None
        };
        self.lines = 1 + more;
        self.begun = self.parsed;
        self.finish();
    }

    /// Records the position after the current record.
    fn finish(&mut self) {
        let (line, after_return) = self.reached;
        self.next = Place { offset: self.offset + self.parsed as u64, line, after_return };
        self.under_way = false;
    }

    /// Counts the line ends in the parsed part of the record.
    fn count_lines(&mut self) {
        let raw = &self.buffer[self.begun..self.parsed];
        let Some(last) = raw.last() else { return };
        let ends = line_ends(raw, false);
        self.line_ends += ends;
        self.reached = (self.reached.0 + ends, *last == b'\r');
    }
}

/// Refuses a line that does not end, so that reading it cannot go on for ever.
fn check_line(bytes: usize) -> io::Result<()> {
    if bytes <= MAX_LINE {
        return Ok(());
    }
    let reason = format!("a line is longer than {MAX_LINE} bytes: is it text in lines?");
    Err(io::Error::new(io::ErrorKind::InvalidData, reason))
}

/// Number of line ends: a line feed, a carriage return, or both together.
fn line_ends(bytes: &[u8], after_return: bool) -> u64 {
    let is_second = |index: &usize| {
        let first = if *index == 0 { after_return } else { bytes[index - 1] == b'\r' };
        bytes[*index] == b'\n' && first
    };
    memchr::memchr2_iter(b'\n', b'\r', bytes).filter(|index| !is_second(index)).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Read;

    /// A reader that returns a few bytes at a time.
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
        Records::new(input, b',', Limits::of(max_record))
    }

    /// A record with the line that it begins on.
    type Record = (u64, Vec<Vec<u8>>);

    /// All remaining records, each with the position after it.
    fn read_all(records: &mut Records) -> Vec<(Record, Place)> {
        let mut found = Vec::new();
        while records.read(None).unwrap() == NextRow::Row {
            let fields = (0..records.len()).map(|index| records.field(index).to_vec()).collect();
            found.push(((records.line(), fields), records.place()));
        }
        found
    }

    /// The same with the `csv` crate, which reports where reading began: the record begins at the first byte from
    /// there on that does not end an empty line.
    fn read_with_csv(bytes: &[u8]) -> Vec<Record> {
        let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes);
        let mut record = csv::ByteRecord::new();
        let mut found = Vec::new();
        while reader.read_byte_record(&mut record).unwrap() {
            let mut start = usize::try_from(record.position().unwrap().byte()).unwrap();
            while start < bytes.len() && b"\r\n".contains(&bytes[start]) {
                start += 1;
            }
            found.push((1 + line_ends(&bytes[..start], false), record.iter().map(<[u8]>::to_vec).collect()));
        }
        found
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

        /// Up to the first quote that is not closed, and from any position on.
        #[test]
        fn records_are_those_of_the_csv_crate_however_the_bytes_come(
            text in "[ab,\"\n\r ]{0,60}",
            step in 1..20_usize,
        ) {
            let mut reader = records(text.as_bytes(), step, 1 << 20);
            let (found, positions): (Vec<Record>, Vec<Place>) = read_all(&mut reader).into_iter().unzip();
            // Lines that are left out have no fields.
            let ordinary = found.iter().take_while(|(_, fields)| !fields.is_empty()).count();
            let expected = read_with_csv(text.as_bytes());
            prop_assert_eq!(&found[..ordinary], &expected[..ordinary]);
            prop_assert!(ordinary < found.len() || found.len() == expected.len());
            for (index, place) in positions.into_iter().enumerate() {
                let mut resumed = records(text.as_bytes(), step, 1 << 20);
                resumed.go_to(place).unwrap();
                let rest: Vec<Record> = read_all(&mut resumed).into_iter().map(|(record, _)| record).collect();
                prop_assert_eq!(&rest, &found[index + 1..]);
            }
        }

        /// Faults do not depend on how the bytes come, and every line is in one record or region.
        #[test]
        fn lines_that_are_left_out_are_the_same_however_the_bytes_come(
            text in "([ab]?,?\"?[ab]?\"?[\n\r]{0,2}){0,12}",
            step in 1..20_usize,
            limits in (1..12_usize, 1..12_usize),
        ) {
            let read = |step| {
                let mut records = records(text.as_bytes(), step, limits.0.max(limits.1));
                records.limits.lines = limits.0.min(limits.1);
                records.expect_fields(2);
                let mut found = Vec::new();
                let mut before = 0;
                while records.read(None).unwrap() == NextRow::Row {
                    assert!(records.line() > before, "each row begins on a new line");
                    before = records.line();
                    let fault = records.fault().map(str::to_owned);
                    found.push((before, records.lines(), fault, records.place().line));
                }
                found
            };
            prop_assert_eq!(read(step), read(1 << 20));
        }
    }

    #[test]
    fn a_record_that_is_too_long_is_one_bad_record_and_is_not_kept() {
        let long = "x".repeat(5_000_000);
        let text = format!("a,b\n{long},\"{long}\n\"\nc,d\n");
        let mut records = records(text.as_bytes(), 100_000, 1000);
        let mut faults = Vec::new();
        while records.read(None).unwrap() == NextRow::Row {
            faults.push((records.line(), records.fault().is_some()));
            assert!(records.buffer.capacity() + records.text.capacity() < 2_000_000);
        }
        assert_eq!(faults, [(1, false), (2, true), (4, false)]);
    }

    /// A reader that fails.
    struct Broken;

    impl Read for Broken {
        fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("broken"))
        }
    }

    #[test]
    fn a_position_is_never_within_a_record() {
        for end in 0..=b"a,b\r\nc,\"d\ne\"\nf,g".len() {
            let text = &b"a,b\r\nc,\"d\ne\"\nf,g"[..end];
            let mut records =
                Records::new(Input::from_reader("test", text.chain(Broken)), b',', Limits::of(1000));
            while records.read(None).is_ok() {}
            let place = records.place();
            let expected = match end {
                0..4 => (0, 1),
                // The parser treats a carriage return as the end of the record, and reads the first one.
                4..13 => (4, 2),
                _ => (13, 4),
            };
            assert_eq!((place.offset, place.line), expected, "after {end} bytes");
        }
    }

    #[test]
    fn a_position_stays_where_it_was_while_a_long_record_is_forgotten() {
        let text = &b"a,b\nc,\"d d d d d d d d"[..];
        let mut records = Records::new(Input::from_reader("test", text.chain(Broken)), b',', Limits::of(5));
        while records.read(None).is_ok() {}
        assert_eq!(records.place(), Place { offset: 4, line: 2, after_return: false });
    }

    #[test]
    fn empty_lines_do_not_make_a_record_long() {
        let mut records = records(format!("a{}b\n", "\n".repeat(30)).as_bytes(), 3, 5);
        let found = std::iter::from_fn(|| {
            (records.read(None).unwrap() == NextRow::Row).then(|| records.fault().is_some())
        });
        assert_eq!(found.collect::<Vec<_>>(), [false, false]);
    }

    #[test]
    fn quotes_that_do_not_come_out_are_faults() {
        let long = "1,x\n".repeat(1000);
        for (text, faults) in [
            ("a,\"b\"\n".to_owned(), vec![]),
            ("a,\"b\" ,c\n".to_owned(), vec![]),
            ("a,5\" pipe,\"x,y\"".to_owned(), vec![]),
            ("a,\"b \"\"c\"\"\"\r\nd\n".to_owned(), vec![]),
            ("\u{feff}\"x,\"\"y\"\"\",z\n".to_owned(), vec![]),
            ("\u{feff}\"x,y\n".to_owned(), vec![(1, "a quote on line 1 is not closed")]),
            ("a,\"b\" \"c\n".to_owned(), vec![(1, "text right behind a closing quote")]),
            ("a,\"b\"c\n".to_owned(), vec![(1, "text right behind a closing quote;")]),
            ("x\na,5\" pipe,\"x y".to_owned(), vec![(2, "a quote that is not closed")]),
            ("x\ra,\"b\r".to_owned(), vec![(2, "a quote on line 2 is not closed; line 2 is left out")]),
            (format!("x,x\na,\"b\n{long}9,\"y\"\nz,z\n"), vec![(2, "the line after it; line 2 is left out")]),
            ("x,x\na,\"b\n9,\"y\nz,z\n\n".to_owned(), vec![(2, "; lines 2 to 3 are left out")]),
            (
                "x,x\na,\"b\nc\nd\n\n".to_owned(),
                vec![(2, "a quote on line 2 is not closed; lines 2 to 5 are left out, 4 in all")],
            ),
            (
                format!("x,x\na,\"b\n{long}{long}{long}"),
                vec![(2, "a quote on line 2 is not closed; line 2 is left out")],
            ),
        ] {
            let mut records = records(text.as_bytes(), 7, 1 << 20);
            if text.starts_with("x,x") {
                records.expect_fields(2);
            }
            let mut found = Vec::new();
            while records.read(None).unwrap() == NextRow::Row {
                found.extend(records.fault().map(|fault| (records.line(), fault.to_owned())));
            }
            assert_eq!(found.len(), faults.len(), "{text:?}: {found:?}");
            for ((line, fault), (expected_line, part)) in found.iter().zip(faults) {
                assert_eq!(*line, expected_line, "{text:?}");
                assert!(fault.contains(part), "{text:?}: {fault}");
            }
        }
    }
}
