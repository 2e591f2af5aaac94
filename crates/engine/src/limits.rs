//! Limits of the text of a specification, so that the RTLola frontend, which recurses and sometimes needs exponential time,
//! ends on any text.

use std::ops::Range;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use codespan_reporting::diagnostic::{Diagnostic, Label};
use fairstream_core::catch_panic;
use rtlola_frontend::RawDiagnostic;

/// Maximum size of a specification, in bytes.
const MOST_BYTES: usize = 1 << 20;
/// Maximum number of brackets that are open at a time.
const MOST_OPEN: usize = 256;
/// Maximum number of operators in a declaration.
const MOST_OPERATORS: usize = 4096;
/// How long parsing and type checking may take.
pub(crate) const BUDGET: Duration = Duration::from_secs(10);

/// Stack of the thread that parses. Pages that are never touched take no memory.
const STACK: usize = 512 << 20;

/// Why the result of some work is not known.
pub(crate) enum Unfinished {
    /// It panicked, with this message.
    Panicked(String),
    /// It takes too long.
    TooLong,
}

/// Does work on a thread with a deep stack, within a time. Work that takes longer is left to itself: it ends with the process
/// at the latest.
pub(crate) fn within<T: Send + 'static>(
    budget: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Unfinished> {
    let (done, result) = channel();
    let work = move || {
        // The receiver is gone if it took too long.
        let _ = done.send(catch_panic(work));
    };
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(work);
    thread.map_err(|error| Unfinished::Panicked(error.to_string()))?;
    match result.recv_timeout(budget) {
        Ok(result) => result.map_err(Unfinished::Panicked),
        Err(RecvTimeoutError::Timeout) => Err(Unfinished::TooLong),
        Err(RecvTimeoutError::Disconnected) => Err(Unfinished::Panicked("its thread ended".to_owned())),
    }
}

/// An error if the text is beyond a limit, with the place where it is.
pub(crate) fn check(text: &str) -> Result<(), RawDiagnostic<()>> {
    if text.len() > MOST_BYTES {
        let message =
            format!("a specification has {MOST_BYTES} bytes at most, and this one has {}", text.len());
        return Err(Diagnostic::error().with_message(message));
    }
    let (mut open, mut operators) = (0_usize, 0_usize);
    let beyond = |at: Range<usize>, message: String| {
        let help = "divide it into several streams".to_owned();
        let label = Label::primary((), at).with_message("here it is too much");
        Err(Diagnostic::error().with_message(message).with_labels(vec![label]).with_notes(vec![help]))
    };
    for (at, token) in Tokens(text, 0) {
        match token {
            "(" | "[" | "{" => open += 1,
            ")" | "]" | "}" => open = open.saturating_sub(1),
            "input" | "output" | "trigger" | "constant" | "import" => operators = 0,
            "if" => operators += 1,
            _ if token.starts_with(|c: char| !c.is_alphanumeric() && c != '_') => operators += 1,
            _ => {}
        }
        let end = at + token.len();
        if open > MOST_OPEN {
            return beyond(at..end, format!("more than {MOST_OPEN} brackets are open at a time"));
        }
        if operators > MOST_OPERATORS {
            return beyond(at..end, format!("a declaration has more than {MOST_OPERATORS} operators"));
        }
    }
    Ok(())
}

/// Words, and each other character by itself, with their positions; without comments, and without the content of strings.
struct Tokens<'a>(&'a str, usize);

impl<'a> Iterator for Tokens<'a> {
    type Item = (usize, &'a str);

    fn next(&mut self) -> Option<(usize, &'a str)> {
        loop {
            let Tokens(text, at) = *self;
            let rest = text.get(at..)?;
            let first = rest.chars().next()?;
            let until = |found: Option<usize>| found.unwrap_or(rest.len());
            let skipped = match first {
                c if c.is_whitespace() => c.len_utf8(),
                '/' if rest.starts_with("//") => until(rest.find('\n')),
                '/' if rest.starts_with("/*") => until(rest.find("*/").map(|end| end + 2)),
                '"' => string_end(rest),
                c if c.is_alphanumeric() || c == '_' => {
                    let end = until(rest.find(|c: char| !c.is_alphanumeric() && c != '_'));
                    self.1 += end;
                    return Some((at, &rest[..end]));
                }
                c => {
                    self.1 += c.len_utf8();
                    return Some((at, &rest[..c.len_utf8()]));
                }
            };
            self.1 += skipped;
        }
    }
}

/// The number of bytes of the string at the beginning of a text.
fn string_end(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !is_escaped => return at + 1,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_in_strings_and_comments_does_not_count() {
        let many = "(".repeat(1000);
        for text in [format!("trigger a \"{many}\""), format!("// {many}\n/* {many} */ input a : Int64")] {
            assert!(check(&text).is_ok(), "{text}");
        }
        for text in [many.clone(), format!("\"a\\\"\" {many}"), format!("/* */ {many}")] {
            assert!(check(&text).is_err(), "{text}");
        }
        assert!(check(&"output a := 1 + 1\n".repeat(20_000)).is_ok());
        assert!(check(&format!("output a := 1{}", " + 1".repeat(4095))).is_err());
        assert!(check(&" ".repeat(MOST_BYTES + 1)).is_err());
    }

    proptest! {
        #[test]
        fn every_token_is_where_it_is_said_to_be(text in "[a-z0-9_ \\n\"\\\\/*()!+é]{0,60}") {
            let mut end = 0;
            for (at, token) in Tokens(&text, 0) {
                prop_assert!(at >= end && !token.is_empty());
                prop_assert_eq!(&text[at..at + token.len()], token);
                end = at + token.len();
            }
        }
    }
}
