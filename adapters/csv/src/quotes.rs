//! The quotes of a record, byte by byte: whether they are closed, and whether a record that spans several lines can be
//! meant as it is. Never changes what the parser reads.

/// Follows the quotes of one record while it is read. The result does not depend on how the bytes arrive.
#[derive(Clone, Debug)]
pub(crate) struct QuoteScan {
    delimiter: u8,
    /// Offset of the record in the input.
    start: u64,
    /// Maximum length of a record that spans several lines, and the number of fields of a record.
    limit: u64,
    columns: Option<usize>,
    within: Within,
    /// Offset of the last opening quote.
    opened: u64,
    /// Whether there is a line end within quotes, and text between a closing quote and the end of its field.
    spans_lines: bool,
    has_text_behind: bool,
    fields: usize,
    fault: Option<QuoteFault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Within {
    Start,
    Plain,
    Quotes,
    /// After a quote inside quotes: it closes them, or it is the first of two.
    Closing,
    /// After closed quotes.
    Behind,
}

/// Why a record that spans several lines cannot be meant as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuoteFault {
    /// It is too long.
    Long,
    /// It has more fields than there are columns.
    Fields,
    /// It has text between a closing quote and the end of its field.
    TextBehind,
    /// The input ends within quotes.
    Open,
}

impl QuoteFault {
    /// The fault of the lines from the first to the last, with a way out. Rows of several lines are `limit` bytes long
    /// at most.
    pub(crate) fn reason(self, quote_line: u64, (first, last): (u64, u64), limit: usize) -> String {
        let fault = match self {
            QuoteFault::Long => format!("a quote on line {quote_line} is not closed within {limit} bytes"),
            QuoteFault::Fields => {
                format!(
                    "a quote on line {quote_line} is not closed before there are more fields than columns"
                )
            }
            QuoteFault::Open => format!("a quote on line {quote_line} is not closed"),
            QuoteFault::TextBehind => {
                "it has text right behind a closing quote, which takes in the line after it".to_owned()
            }
        };
        let extent = match last - first {
            0 => format!("line {first} is left out"),
            more => format!("lines {first} to {last} are left out, {} in all", more + 1),
        };
        let way_out = match self {
            QuoteFault::Long => {
                "close the quote, or allow longer rows of several lines with `?max_row=BYTES` after the input"
            }
            QuoteFault::Fields | QuoteFault::Open => "close the quote",
            QuoteFault::TextBehind => "a quote inside quotes is written twice",
        };
        format!("{fault}; {extent}; {way_out}")
    }
}

impl Default for QuoteScan {
    fn default() -> QuoteScan {
        QuoteScan::new(b',', 0, (0, None))
    }
}

impl QuoteScan {
    /// The quotes of a record that begins there. If it spans several lines, it may have that many bytes and fields.
    pub(crate) fn new(delimiter: u8, start: u64, (limit, columns): (usize, Option<usize>)) -> QuoteScan {
        QuoteScan {
            delimiter,
            start,
            limit: limit as u64,
            columns,
            within: Within::Start,
            opened: start,
            spans_lines: false,
            has_text_behind: false,
            fields: 1,
            fault: None,
        }
    }

    /// Follows the next bytes, of which the first is at that offset.
    pub(crate) fn scan(&mut self, bytes: &[u8], offset: u64) {
        /// A complete UTF-8 byte order mark is not part of the first field.
        const MARK: &[u8] = b"\xEF\xBB\xBF";
        let marked = if offset == 0 && bytes.starts_with(MARK) { MARK.len() } else { 0 };
        let (bytes, offset) = (&bytes[marked..], offset + marked as u64);
        let is_outside = matches!(self.within, Within::Start | Within::Plain);
        if is_outside && !self.spans_lines && memchr::memchr(b'"', bytes).is_none() {
            if let Some(last) = bytes.last() {
                self.fields += memchr::memchr_iter(self.delimiter, bytes).count();
                self.within = if *last == self.delimiter { Within::Start } else { Within::Plain };
            }
            return;
        }
        for (byte, at) in bytes.iter().zip(offset..) {
            if self.fault.is_some() {
                return;
            }
            self.step(*byte, at);
        }
    }

    fn step(&mut self, byte: u8, at: u64) {
        let is_end = is_line_end(byte) && self.within != Within::Quotes;
        self.within = match (self.within, byte) {
            (Within::Quotes, b'"') => Within::Closing,
            (Within::Quotes, byte) => {
                self.spans_lines |= is_line_end(byte);
                Within::Quotes
            }
            (Within::Start, b'"') => {
                self.opened = at;
                Within::Quotes
            }
            (Within::Closing, b'"') => Within::Quotes,
            (_, byte) if byte == self.delimiter => {
                self.fields += 1;
                Within::Start
            }
            (_, byte) if is_line_end(byte) => Within::Start,
            (Within::Closing | Within::Behind, b' ') => Within::Behind,
            (Within::Closing | Within::Behind, _) => {
                self.has_text_behind = true;
                Within::Plain
            }
            (Within::Start | Within::Plain, _) => Within::Plain,
        };
        if !self.spans_lines || is_end {
            return;
        }
        self.fault = if self.has_text_behind {
            Some(QuoteFault::TextBehind)
        } else if self.columns.is_some_and(|columns| self.fields > columns) {
            Some(QuoteFault::Fields)
        } else if at - self.start >= self.limit {
            Some(QuoteFault::Long)
        } else {
            None
        };
    }

    /// The input has ended, and the record with it.
    pub(crate) fn end(&mut self) {
        if self.is_open() && self.spans_lines && self.fault.is_none() {
            self.fault = Some(QuoteFault::Open);
        }
    }

    /// Why the record cannot be meant as it is, if it spans several lines.
    pub(crate) fn fault(&self) -> Option<QuoteFault> {
        self.fault
    }

    /// Offset of the quote at fault, or else of the record.
    pub(crate) fn place_of_fault(&self) -> u64 {
        if self.fault == Some(QuoteFault::TextBehind) { self.start } else { self.opened }
    }

    /// Whether the record ends within quotes.
    pub(crate) fn is_open(&self) -> bool {
        self.within == Within::Quotes
    }

    /// Whether there is text between a closing quote and the end of its field.
    pub(crate) fn has_text_behind(&self) -> bool {
        self.has_text_behind
    }

    /// Length of the record up to that offset.
    pub(crate) fn length(&self, offset: u64) -> usize {
        usize::try_from(offset.saturating_sub(self.start)).unwrap_or(usize::MAX)
    }
}

/// The number of fields of a line that is a record by itself; `None` if it is empty or its quotes are at fault.
pub(crate) fn fields_of_line(line: &[u8], delimiter: u8) -> Option<usize> {
    let mut quotes = QuoteScan::new(delimiter, 0, (usize::MAX, None));
    // No offset of a line is that of a byte order mark.
    quotes.scan(line, 1);
    (!line.is_empty() && !quotes.is_open() && !quotes.has_text_behind).then_some(quotes.fields)
}

pub(crate) fn is_line_end(byte: u8) -> bool {
    byte == b'\n' || byte == b'\r'
}
