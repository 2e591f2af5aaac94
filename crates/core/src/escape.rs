//! Escapes of reserved characters in addresses and lists, as in `%26` for `&`.
//!
//! Only these are escapes: `%20` (blank), `%22` (`"`), `%23` (`#`), `%25` (`%`), `%26` (`&`), `%27` (`'`), `%2B` (`+`),
//! `%2C` (`,`), `%2F` (`/`), `%3A` (`:`), `%3B` (`;`), `%3D` (`=`), `%3F` (`?`), with capital letters. Every other `%` is
//! itself, so that a pattern of times such as `%d.%m.%Y`, `%d%b%Y` or `%3f` needs no escape.

use std::borrow::Cow;

/// The characters that have an escape.
const RESERVED: &str = " \"#%&'+,/:;=?";

/// Replaces every escape of a reserved character.
pub fn unescape(text: &str) -> Cow<'_, str> {
    unescape_only(text, RESERVED)
}

/// Replaces the escapes of some reserved characters.
pub fn unescape_only<'a>(text: &'a str, characters: &str) -> Cow<'a, str> {
    if !text.contains('%') {
        return text.into();
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        plain += before;
        match escaped(after).filter(|character| characters.contains(*character)) {
            Some(character) => {
                plain.push(character);
                rest = &after[2..];
            }
            None => {
                plain.push('%');
                rest = after;
            }
        }
    }
    plain += rest;
    plain.into()
}

/// Escapes some reserved characters, and every `%` that would begin an escape.
pub fn escape(text: &str, characters: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for (at, character) in text.char_indices() {
        let begins_escape = character == '%' && escaped(&text[at + 1..]).is_some();
        if begins_escape
            || (character != '%' && characters.contains(character) && RESERVED.contains(character))
        {
            safe += &format!("%{:02X}", u32::from(character));
        } else {
            safe.push(character);
        }
    }
    safe
}

/// The reserved character whose code a text begins with.
fn escaped(text: &str) -> Option<char> {
    let code =
        text.get(..2).filter(|code| !code.bytes().any(|byte| byte.is_ascii_lowercase() || byte == b'+'))?;
    let character = char::from(u8::from_str_radix(code, 16).ok()?);
    RESERVED.contains(character).then_some(character)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_escaped_is_read_back(text in "[a-f%&=?:, 0-9A-F]{0,12}|\\PC{0,8}", characters in "[&=?:, ]{0,4}") {
            let safe = escape(&text, &characters);
            prop_assert_eq!(&unescape(&safe), &text);
            prop_assert!(!safe.contains(|c| characters.contains(c)));
        }

        /// No pattern of times is changed.
        #[test]
        fn patterns_are_not_escapes(pattern in "(%[-_0^#]?[a-zA-Z]|%\\.[0-9]?f|%[36]f|%:z|[.: ,/T-]){0,8}") {
            prop_assert_eq!(unescape(&pattern), pattern.as_str());
        }
    }

    #[test]
    fn only_reserved_characters_have_escapes() {
        for (text, plain) in [
            ("a%26b%3Dc%3F%25%3A%2C%20", "a&b=c?%:, "),
            ("%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M"),
            ("%da%3f%41%", "%da%3f%41%"),
            ("%2526", "%26"),
        ] {
            assert_eq!(unescape(text), plain, "{text}");
        }
    }
}
