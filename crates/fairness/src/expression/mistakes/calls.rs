//! Mistakes in methods and conversions.

use super::{Lexemes, Mistake};
use crate::expression::lexeme::{Lexeme, LexemeKind};

impl Lexemes<'_> {
    /// A method whose arguments are missing or unknown.
    pub(super) fn method(&self, index: usize) -> Option<Mistake> {
        let method = self.get(index).filter(|_| self.is_method(index))?;
        let column = self.get(index.checked_sub(2)?)?.text;
        let (argument, help) = match method.text {
            "last" | "hold" | "get" => {
                ("or", format!("write `{column}.{}(or: 0)`: the value in place of none", method.text))
            }
            "offset" => ("by", format!("write `{column}.offset(by: -2).defaults(to: 0)`")),
            "defaults" => {
                ("to", format!("write `{column}.hold(or: 0)`, or `{column}.offset(by: -2).defaults(to: 0)`"))
            }
            _ => return None,
        };
        let is_named =
            self.is(index + 1, "(") && self.is_word(index + 2, argument) && self.is(index + 3, ":");
        let end = self.closing(index + 1, "(", ")").filter(|_| self.is(index + 1, "("));
        let is_followed = end.is_some_and(|end| self.is(end + 1, ".") && self.is_word(end + 2, "defaults"));
        if method.text == "offset"
            && is_named
            && self.get(index + 4).is_some_and(|by| by.kind == LexemeKind::Number && by.text != "0")
        {
            let range = self.get(index + 4)?.range.clone();
            return Some(Mistake::new(
                range,
                "a value in the future is not known",
                "count back, as in `by: -1`",
            ));
        }
        if method.text == "offset" && is_named && !is_followed && self.is(index + 4, "-") {
            let range = method.range.start..self.get(end?)?.range.end;
            let written = &self.text[range.clone()];
            let help = format!("write `{column}.{written}.defaults(to: 0)`: the value in place of none");
            return Some(Mistake::new(range, "there may be no value that far back", help));
        }
        if is_named || is_followed && ["hold", "get"].contains(&method.text) {
            return None;
        }
        Some(Mistake::new(
            method.range.clone(),
            format!("`{}` needs to know `{argument}: …`", method.text),
            help,
        ))
    }

    /// `cast` without both types.
    pub(super) fn conversion(&self, index: usize) -> Option<Mistake> {
        let is_type = |lexeme: &Lexeme<'_>| lexeme.text.starts_with(|c: char| c.is_uppercase());
        let is_call =
            self.is(index + 1, "(") || self.is(index + 1, "<") && self.get(index + 2).is_some_and(is_type);
        let word = self.get(index).filter(|word| word.is_word("cast") && is_call)?;
        let open = (index + 1..self.all.len().min(index + 7)).find(|index| self.is(*index, "("))?;
        let is_complete =
            self.is(index + 1, "<") && self.all[index + 2..open].iter().any(|lexeme| lexeme.is(","));
        if is_complete {
            return None;
        }
        let argument = self.get(open + 1).map_or("score", |argument| argument.text);
        let from = self.column_type(open + 1).unwrap_or_else(|| "Int64".to_owned());
        let to = match self.get(index + 2).filter(|_| self.is(index + 1, "<")) {
            Some(to) => to.text,
            None if from == "Float64" => "Int64",
            None => "Float64",
        };
        let help = format!("write `cast<{from}, {to}>({argument})`");
        Some(Mistake::new(
            word.range.clone(),
            "a conversion names the type of the value and the new one",
            help,
        ))
    }
}
