//! Text from data or from files of others, as it can be shown: without a character that would act on a terminal, reorder
//! what is around it, or break a line.

use std::borrow::Cow;
use std::fmt::Write;

/// The text with an escape in place of every control character, line breaks included, and of every mark that changes the
/// direction of text or cannot be seen.
///
/// ```
/// assert_eq!(fairstream_core::visible("F\u{1b}[2J\n"), r"F\u{1b}[2J\n");
/// ```
pub fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, acts)
}

/// The same, but line breaks and tabs stay.
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| acts(c) && !matches!(c, '\n' | '\t'))
}

/// [`visible`], and cut to this many characters, with `…` in place of the rest.
pub fn brief(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        None => visible(text),
        Some((end, _)) => Cow::Owned(visible(&text[..end]).into_owned() + "…"),
    }
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !is_escaped(c) => out.push(c),
            '\n' | '\r' | '\t' => out.extend(c.escape_default()),
            c => {
                // Writing to a string cannot fail.
                let _ = write!(out, "{}", c.escape_unicode());
            }
        }
    }
    Cow::Owned(out)
}

fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Soft hyphen, Arabic letter mark, Mongolian vowel separator.
            '\u{ad}' | '\u{61c}' | '\u{180e}'
            // Zero width, and marks of direction.
            | '\u{200b}'..='\u{200f}'
            // Line and paragraph separators; embeddings and overrides of direction.
            | '\u{2028}'..='\u{202e}'
            // Invisible operators, isolates.
            | '\u{2060}'..='\u{206f}'
            // Byte order mark, interlinear annotations, tags.
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_acts_is_escaped() {
        assert_eq!(visible("Ä b"), "Ä b");
        assert_eq!(visible("a\r\nb\tc"), r"a\r\nb\tc");
        assert_eq!(visible("\u{202e}fed\u{9b}31m"), r"\u{202e}fed\u{9b}31m");
        assert_eq!(visible_lines("a\n\tb\u{7}"), "a\n\tb\\u{7}");
        assert_eq!((brief("äöü", 3), brief("äöüß", 3)), ("äöü".into(), "äöü…".into()));
    }

    proptest! {
        #[test]
        fn nothing_that_acts_is_left(text: String) {
            prop_assert!(!visible(&text).contains(acts));
            prop_assert!(!visible_lines(&text).contains(|c| acts(c) && !matches!(c, '\n' | '\t')));
            let shown = visible(&text);
            prop_assert_eq!(visible(&shown), shown.as_ref());
            prop_assert!(brief(&text, 7).chars().count() <= 7 * 10 + 1);
        }
    }
}
