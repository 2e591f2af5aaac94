//! Checks the list lengths in Parquet metadata, which is encoded in Thrift's compact protocol, before the library
//! reads it. A boolean in a list of an unknown field takes no bytes, so that the library would iterate over up to
//! two thousand million of them.

/// Error message for lists that are too long.
pub(crate) const TOO_MANY: &str = "a list in what it says of itself has more values than there are bytes";

/// Whether the lists of a struct have no more values than its bytes permit. Also true for bytes that are truncated
/// or no struct, which the library reports.
pub(crate) fn is_credible(bytes: &[u8]) -> bool {
    !matches!(ThriftWalk { bytes, values: bytes.len() }.skip(STRUCT, DEPTH), Err(SkipError::TooMany))
}

/// What the header of a page says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageHeader {
    /// Bytes of the header; `None` if it does not end in these bytes.
    pub(crate) length: Option<usize>,
    /// The declared size of the page without compression.
    pub(crate) size: Option<u64>,
    /// Its declared size in the file.
    pub(crate) compressed: Option<u64>,
}

impl PageHeader {
    /// The header at the beginning of these bytes.
    pub(crate) fn read(bytes: &[u8]) -> PageHeader {
        /// The first fields: the type of the page, its size without compression, and with it.
        const SIZE: u8 = 2;
        const COMPRESSED: u8 = 3;
        const I32: u8 = 5;
        let mut whole = ThriftWalk { bytes, values: bytes.len() };
        let length = whole.skip(STRUCT, DEPTH).is_ok().then(|| bytes.len() - whole.bytes.len());
        let mut header = PageHeader { length, ..PageHeader::default() };
        let mut walk = ThriftWalk { bytes, values: bytes.len() };
        let mut field = 0;
        while field < COMPRESSED
            && let Ok(byte) = walk.byte()
            && byte >> 4 != 0
            && byte & 15 == I32
            && let Ok(number) = walk.number()
        {
            field += byte >> 4;
            // Signed numbers are written zigzag; a negative size is reported by the library.
            let size = (number & 1 == 0).then_some(number as u64 / 2);
            match field {
                SIZE => header.size = size,
                COMPRESSED => header.compressed = size,
                _ => {}
            }
        }
        header
    }
}

/// Maximum depth, as in the library.
const DEPTH: u8 = 64;
const STRUCT: u8 = 12;

struct ThriftWalk<'a> {
    bytes: &'a [u8],
    /// Maximum number of further list values: each takes at least one byte.
    values: usize,
}

enum SkipError {
    TooMany,
    Unclear,
}

impl ThriftWalk<'_> {
    /// Skips a value of a type.
    fn skip(&mut self, of: u8, depth: u8) -> Result<(), SkipError> {
        let inside = depth.checked_sub(1).ok_or(SkipError::Unclear)?;
        match of {
            // A boolean, whose value is in its type.
            1 | 2 => Ok(()),
            3 => self.pass(1),
            4..=6 => self.number().map(drop),
            7 => self.pass(8),
            8 => {
                let length = self.number()?;
                self.pass(length)
            }
            // A list or a set.
            9 | 10 => {
                let header = self.byte()?;
                let count = match header >> 4 {
                    15 => self.number()?,
                    few => usize::from(few),
                };
                self.claim(count)?;
                (0..count).try_for_each(|_| self.skip(header & 15, inside))
            }
            // A map.
            11 => match self.number()? {
                0 => Ok(()),
                count => {
                    self.claim(count)?;
                    let types = self.byte()?;
                    (0..count).try_for_each(|_| {
                        self.skip(types >> 4, inside)?;
                        self.skip(types & 15, inside)
                    })
                }
            },
            STRUCT => loop {
                let header = self.byte()?;
                if header & 15 == 0 {
                    return Ok(());
                }
                if header >> 4 == 0 {
                    self.number()?;
                }
                self.skip(header & 15, inside)?;
            },
            13 => self.pass(16),
            _ => Err(SkipError::Unclear),
        }
    }

    fn claim(&mut self, count: usize) -> Result<(), SkipError> {
        self.values = self.values.checked_sub(count).ok_or(SkipError::TooMany)?;
        Ok(())
    }

    fn pass(&mut self, count: usize) -> Result<(), SkipError> {
        self.bytes = self.bytes.get(count..).ok_or(SkipError::Unclear)?;
        Ok(())
    }

    fn byte(&mut self) -> Result<u8, SkipError> {
        let (first, rest) = self.bytes.split_first().ok_or(SkipError::Unclear)?;
        self.bytes = rest;
        Ok(*first)
    }

    /// A variable-length integer.
    fn number(&mut self) -> Result<usize, SkipError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= usize::from(byte & 127) << shift;
            if byte < 128 {
                return Ok(number);
            }
        }
        Err(SkipError::Unclear)
    }
}

#[cfg(test)]
mod tests {
    use super::is_credible;

    #[test]
    fn lists_have_no_more_values_than_there_are_bytes() {
        // A field that is a list of two numbers, and the end of the struct.
        assert!(is_credible(&[0x19, 0x25, 1, 2, 0]));
        // Truncated, nested too deeply, or of an unknown type.
        assert!(is_credible(&[0x19, 0x25, 1]));
        assert!(is_credible(&[0x1c; 200]));
        assert!(is_credible(&[0x1f, 0, 0]));
        assert!(is_credible(&[]));
        // Lists of booleans, one that is too long and several that are too long in total; and a map.
        assert!(!is_credible(&[0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 7, 0]));
        assert!(!is_credible(&[0x19, 0x92].repeat(20)));
        assert!(!is_credible(&[0x1b, 0xff, 0xff, 0xff, 0xff, 7, 0x11, 0]));
    }
}
