//! Decodes text in other encodings than UTF-8 while it is read.
//!
//! What is invalid becomes a byte that no UTF-8 has, instead of `�`, so that it is reported where the text is used.

use std::str::FromStr;

use fairstream_core::OptionDoc;

/// The option with the encoding of an input.
pub const ENCODING: OptionDoc = OptionDoc {
    name: "encoding",
    default: "",
    help: "utf-8 (the default, or UTF-16 with a byte order mark), latin1, windows-1252, utf-16le, utf-16be",
};

/// What to add to an error about text that is not UTF-8.
pub const ENCODING_HINT: &str = "(another encoding? append `?encoding=latin1` to the input)";

/// How text is written as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8.
    Utf8,
    /// ISO 8859-1: each byte is the character of that number.
    Latin1,
    /// Latin-1 with printable characters from 80 to 9F.
    Windows1252,
    /// UTF-16, the low byte first.
    Utf16Le,
    /// UTF-16, the high byte first.
    Utf16Be,
}

impl FromStr for Encoding {
    type Err = String;

    fn from_str(name: &str) -> Result<Encoding, String> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "utf-8" | "utf8" => Encoding::Utf8,
            "latin1" | "latin-1" | "iso-8859-1" => Encoding::Latin1,
            "windows-1252" | "cp1252" => Encoding::Windows1252,
            "utf-16le" => Encoding::Utf16Le,
            "utf-16be" => Encoding::Utf16Be,
            _ => return Err("there are utf-8, latin1, windows-1252, utf-16le and utf-16be".to_owned()),
        })
    }
}

impl Encoding {
    /// Number of bytes that [`Encoding::of_mark`] needs.
    pub(crate) const MARK: usize = 2;

    /// The encoding of a text that starts with these bytes: UTF-16 if there is its byte order mark, else UTF-8.
    pub(crate) fn of_mark(start: &[u8]) -> Encoding {
        match start {
            [0xFF, 0xFE, ..] => Encoding::Utf16Le,
            [0xFE, 0xFF, ..] => Encoding::Utf16Be,
            _ => Encoding::Utf8,
        }
    }
}

/// A byte that is never part of UTF-8.
const INVALID: u8 = 0xFF;

/// Decodes one text, in pieces of any length.
#[derive(Debug)]
pub(crate) struct Decoder {
    encoding: Encoding,
    /// The first byte of a unit of UTF-16 whose second has not been read yet.
    odd: Option<u8>,
    /// The first unit of a surrogate pair whose second has not been read yet.
    high: Option<u16>,
}

impl Decoder {
    pub(crate) fn new(encoding: Encoding) -> Decoder {
        Decoder { encoding, odd: None, high: None }
    }

    /// Appends a piece of the text as UTF-8.
    pub(crate) fn decode(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        match self.encoding {
            Encoding::Utf8 => out.extend_from_slice(bytes),
            Encoding::Latin1 => bytes.iter().for_each(|byte| push(char::from(*byte), out)),
            Encoding::Windows1252 => bytes.iter().for_each(|byte| push(windows_1252(*byte), out)),
            Encoding::Utf16Le | Encoding::Utf16Be => {
                for byte in bytes {
                    let Some(first) = self.odd.take() else {
                        self.odd = Some(*byte);
                        continue;
                    };
                    let unit = match self.encoding {
                        Encoding::Utf16Le => u16::from_le_bytes([first, *byte]),
                        _ => u16::from_be_bytes([first, *byte]),
                    };
                    self.unit(unit, out);
                }
            }
        }
    }

    fn unit(&mut self, unit: u16, out: &mut Vec<u8>) {
        if (0xD800..0xDC00).contains(&unit) {
            // It begins a pair; one before it is alone.
            if self.high.replace(unit).is_some() {
                out.push(INVALID);
            }
            return;
        }
        let high = self.high.take();
        for decoded in char::decode_utf16(high.into_iter().chain([unit])) {
            match decoded {
                Ok(character) => push(character, out),
                Err(_) => out.push(INVALID),
            }
        }
    }

    /// Appends what remains at the end of the text.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        if self.odd.take().is_some() | self.high.take().is_some() {
            out.push(INVALID);
        }
    }
}

fn push(character: char, out: &mut Vec<u8>) {
    match u8::try_from(character) {
        Ok(byte) if byte.is_ascii() => out.push(byte),
        _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

fn windows_1252(byte: u8) -> char {
    /// The characters of the bytes from 80 to 9F. The five that are unassigned are control characters, as in browsers.
    const HIGH: [char; 32] = [
        '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}',
        '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
    ];
    let high = usize::from(byte).checked_sub(0x80).and_then(|index| HIGH.get(index));
    high.copied().unwrap_or(char::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Decodes in pieces of that length.
    fn decoded(encoding: Encoding, bytes: &[u8], step: usize) -> Vec<u8> {
        let mut decoder = Decoder::new(encoding);
        let mut out = Vec::new();
        bytes.chunks(step).for_each(|piece| decoder.decode(piece, &mut out));
        decoder.finish(&mut out);
        out
    }

    fn utf16(units: &[u16], encoding: Encoding) -> Vec<u8> {
        let bytes =
            |unit: &u16| if encoding == Encoding::Utf16Le { unit.to_le_bytes() } else { unit.to_be_bytes() };
        units.iter().flat_map(bytes).collect()
    }

    proptest! {
        #[test]
        fn texts_are_decoded_however_the_bytes_come(text in "\\PC{0,12}|[a-zé€😀]{0,12}", step in 1..9_usize) {
            let units: Vec<u16> = text.encode_utf16().collect();
            for encoding in [Encoding::Utf16Le, Encoding::Utf16Be] {
                prop_assert_eq!(decoded(encoding, &utf16(&units, encoding), step), text.as_bytes());
            }
            prop_assert_eq!(decoded(Encoding::Utf8, text.as_bytes(), step), text.as_bytes());
        }

        /// Invalid UTF-16 decodes like that of the standard library, with a byte that is not UTF-8 in place of `�`.
        #[test]
        fn lone_surrogates_are_not_utf8(
            units in prop::collection::vec(prop::sample::select(vec![0x41_u16, 0xD800, 0xD83D, 0xDC00, 0xDE00, 0xFFFF]), 0..12),
            step in 1..9_usize,
        ) {
            let found = decoded(Encoding::Utf16Le, &utf16(&units, Encoding::Utf16Le), step);
            let mut expected = Vec::new();
            for decoded in char::decode_utf16(units.iter().copied()) {
                match decoded {
                    Ok(character) => expected.extend(character.to_string().bytes()),
                    Err(_) => expected.push(INVALID),
                }
            }
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn every_byte_is_a_character_of_latin_1() {
        let all: Vec<u8> = (0..=255).collect();
        let text = String::from_utf8(decoded(Encoding::Latin1, &all, 7)).unwrap();
        assert!(text.chars().eq((0..=255).map(char::from)));
        let text = String::from_utf8(decoded(Encoding::Windows1252, &all, 7)).unwrap();
        assert_eq!(text.chars().count(), 256);
        assert_eq!(decoded(Encoding::Windows1252, b"\x80 \x93\xE9\x94", 2), "€ “é”".as_bytes());
        assert_eq!(decoded(Encoding::Utf16Le, &[0x41, 0, 0x42], 1), [b'A', INVALID]);
    }
}
