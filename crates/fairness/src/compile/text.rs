//! RTLola text with a source map to the fairness file, so that an error of the RTLola frontend can be shown where the
//! user wrote it.

use std::ops::Range;

use crate::expression::Expression;

/// Text under construction. Expressions are represented by marks, which are replaced at the end.
#[derive(Debug, Default)]
pub(super) struct Text {
    out: String,
    expressions: Vec<Expression>,
}

/// A range of the RTLola text that comes from the fairness file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourceMapping {
    /// The range in the RTLola text.
    pub(super) there: Range<usize>,
    /// The range in the fairness file.
    pub(super) here: Range<usize>,
    /// Whether both ranges have the same characters, so that positions within them correspond.
    pub(super) letter_by_letter: bool,
}

/// Delimiter of marks. It does not occur in any text.
const MARK: char = '\u{1}';

impl Text {
    pub(super) fn push(&mut self, text: &str) {
        self.out += text;
    }

    pub(super) fn line(&mut self, text: &str) {
        self.out += text;
        self.out.push('\n');
    }

    /// A mark for an expression.
    pub(super) fn mark(&mut self, expression: &Expression) -> String {
        self.expressions.push(expression.clone());
        format!("{MARK}{}{MARK}", self.expressions.len() - 1)
    }

    /// A mark for an expression that is an operand of `∧`, in parentheses if it needs them.
    pub(super) fn mark_joined(&mut self, expression: &Expression) -> String {
        let mark = self.mark(expression);
        if expression.is_loose() { format!("({mark})") } else { mark }
    }

    pub(super) fn finish(self) -> (String, Vec<SourceMapping>) {
        let (mut text, mut mappings) = (String::with_capacity(self.out.len()), Vec::new());
        for (index, part) in self.out.split(MARK).enumerate() {
            let marked = if index % 2 == 1 { part.parse::<usize>().ok() } else { None };
            match marked.and_then(|marked| self.expressions.get(marked)) {
                Some(expression) => {
                    let start = text.len();
                    text += &expression.text;
                    for part in &expression.origins {
                        let shifted = |range: &Range<usize>, by: usize| range.start + by..range.end + by;
                        mappings.extend(expression.begins.map(|begins| SourceMapping {
                            there: shifted(&part.bound, start),
                            here: shifted(&part.original, begins),
                            letter_by_letter: part.bound.len() == part.original.len(),
                        }));
                    }
                    let is_original = expression.origins.is_empty();
                    let length =
                        expression.origins.last().map_or(expression.text.len(), |part| part.original.end);
                    mappings.push(SourceMapping {
                        there: start..text.len(),
                        here: expression
                            .begins
                            .map_or(expression.at.range(), |begins| begins..begins + length),
                        letter_by_letter: expression.begins.is_some() && is_original,
                    });
                }
                None => text += part,
            }
        }
        (text, mappings)
    }
}

/// Maps a range of the RTLola text to the fairness file.
pub(super) fn locate(mappings: &[SourceMapping], there: &Range<usize>) -> Option<Range<usize>> {
    let mapping = mappings
        .iter()
        .find(|mapping| mapping.there.start <= there.start && there.end <= mapping.there.end)?;
    if !mapping.letter_by_letter {
        return Some(mapping.here.clone());
    }
    let shift = mapping.here.start;
    Some(there.start - mapping.there.start + shift..there.end - mapping.there.start + shift)
}

/// The last expression of the user before a position in the RTLola text. If that is incomplete, the frontend reports an
/// error at the text after it.
pub(super) fn before(mappings: &[SourceMapping], there: usize) -> Option<Range<usize>> {
    mappings.iter().rev().find(|mapping| mapping.there.end <= there).map(|mapping| mapping.here.clone())
}

/// The last expression of the user within a range of the RTLola text.
pub(super) fn within(mappings: &[SourceMapping], there: &Range<usize>) -> Option<Range<usize>> {
    let inside =
        |mapping: &&SourceMapping| there.start <= mapping.there.start && mapping.there.end <= there.end;
    mappings.iter().rev().find(inside).map(|mapping| mapping.here.clone())
}
