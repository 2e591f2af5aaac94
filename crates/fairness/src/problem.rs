//! What is wrong with a fairness file, and where: line, column, the line itself and a caret.

use std::fmt;
use std::ops::Range;

/// One problem in a fairness file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The bytes of the file at fault.
    pub at: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl Problem {
    /// A problem at this position.
    pub fn new(at: Range<usize>, message: impl Into<String>) -> Problem {
        Problem { at, message: message.into(), help: None }
    }

    /// Adds a suggestion.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Problem {
        self.help = Some(help.into());
        self
    }
}

/// A text that is not a valid fairness file, with all of its problems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    name: String,
    text: String,
    problems: Vec<Problem>,
}

impl FileError {
    pub(crate) fn new(name: &str, text: &str, mut problems: Vec<Problem>) -> FileError {
        problems.sort_by_key(|problem| problem.at.start);
        problems.dedup();
        FileError { name: name.to_owned(), text: text.to_owned(), problems }
    }

    /// The problems in order of position.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl std::error::Error for FileError {}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n\n")?;
            }
            self.describe(f, problem)?;
        }
        Ok(())
    }
}

impl FileError {
    fn describe(&self, f: &mut fmt::Formatter<'_>, problem: &Problem) -> fmt::Result {
        let start = floor(&self.text, problem.at.start);
        let line_start = self.text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = self.text[start..].find('\n').map_or(self.text.len(), |at| start + at);
        let line = self.text[line_start..line_end].trim_end_matches('\r');
        let number = self.text[..line_start].matches('\n').count() + 1;
        let column = self.text[line_start..start].chars().count();
        let end =
            floor(&self.text, problem.at.end).clamp(start, line_start + line.len().max(start - line_start));
        let width = self.text[start..end].chars().count().max(1);
        let gutter = " ".repeat(number.to_string().len());
        // Tabs stay tabs, so that the caret is aligned with the text.
        let before: String = line.chars().take(column).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        write!(
            f,
            "error: {}\n{gutter}--> {}:{number}:{}\n{gutter} |\n{number} | {line}\n{gutter} | {before}{}",
            problem.message,
            self.name,
            column + 1,
            "^".repeat(width)
        )?;
        match &problem.help {
            Some(help) => write!(f, "\n{gutter} = {help}"),
            None => Ok(()),
        }
    }
}

/// The nearest start of a character at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, at: Range<usize>) -> String {
        FileError::new("f.toml", text, vec![Problem::new(at, "no").help("yes")]).to_string()
    }

    #[test]
    fn the_caret_stands_under_the_place() {
        assert_eq!(
            shown("a = 1\nbé = 22\n", 12..14),
            "error: no\n --> f.toml:2:6\n  |\n2 | bé = 22\n  |      ^^\n  = yes"
        );
        // At the end, beyond it, and over several lines.
        assert!(shown("a = 1", 5..5).ends_with("1 | a = 1\n  |      ^\n  = yes"));
        assert!(shown("a = 1", 90..99).contains("f.toml:1:6"));
        assert!(shown("a = [\n1]", 4..8).ends_with("1 | a = [\n  |     ^\n  = yes"));
        assert!(shown("", 0..0).contains("f.toml:1:1"));
    }
}
