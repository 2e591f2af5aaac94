//! Mistakes in lists after `in` and patterns after `matches`.

use super::operands::is_keyword;
use super::{Lexemes, Mistake, is_not, pattern};
use crate::expression::is_number;
use crate::expression::lexeme::{Lexeme, LexemeKind};

impl Lexemes<'_> {
    /// The column that `in` or `matches` is about, if there is one; `matches(…)` is a function otherwise.
    fn column_before(&self, index: usize) -> Option<usize> {
        let column = index.checked_sub(1 + usize::from(self.before(index).is_some_and(is_not)))?;
        let is_column = self.get(column)?.name().is_some() && !is_keyword(self.get(column)?);
        (is_column && !self.is_method(column)).then_some(column)
    }

    /// A list after `in`.
    pub(super) fn list(&self, index: usize) -> Option<Mistake> {
        let word = self.get(index).filter(|word| word.kind == LexemeKind::Word && word.text == "in")?;
        let column = self.column_before(index)?;
        let name = self.get(column)?.name()?;
        let Some(bracket) = self.get(index + 1).filter(|after| after.is("[")) else {
            let end = self.closing(index + 1, "(", ")").filter(|_| self.is(index + 1, "("));
            let help = match end {
                Some(end) => {
                    let items = self.text[self.get(index + 1)?.range.end..self.get(end)?.range.start].trim();
                    format!("write `{name} in [{items}]`")
                }
                None => format!("as in `{name} in [1, 2]`"),
            };
            return Some(Mistake::new(
                word.range.clone(),
                "a list in square brackets stands after `in`",
                help,
            ));
        };
        let Some(end) = self.closing(index + 1, "[", "]") else {
            return Some(Mistake::new(
                bracket.range.clone(),
                "this list is not closed",
                "write `]` after its last value",
            ));
        };
        let items = &self.all[index + 2..end];
        if items.is_empty() {
            let range = bracket.range.start..self.get(end)?.range.end;
            let help = format!("name the values, as in `{name} in [1, 2]`");
            return Some(Mistake::new(range, "an empty list has no value", help));
        }
        let data_type = self.column_type(column);
        items.split(|lexeme| lexeme.is(",")).find_map(|item| wrong_item(item, name, data_type.as_deref()))
    }

    /// A pattern after `matches`.
    pub(super) fn pattern(&self, index: usize) -> Option<Mistake> {
        let word = self.get(index).filter(|word| word.kind == LexemeKind::Word && word.text == "matches")?;
        let column = self.column_before(index)?;
        let name = self.get(column)?.name()?;
        if let Some(data_type) = self.column_type(column).filter(|data_type| data_type != "String") {
            let message = format!("`{name}` is {data_type}, and a pattern is of text");
            let help =
                format!("compare it, as in `{name} == …`, or give it the type String in [events.columns]");
            return Some(Mistake::new(self.get(column)?.range.clone(), message, help));
        }
        let Some(text) = self.get(index + 1).filter(|after| after.kind == LexemeKind::Text) else {
            let range = self.get(index + 1).unwrap_or(word).range.clone();
            let help = format!("as in `{name} matches \"^A\"`");
            return Some(Mistake::new(range, "a pattern in double quotes stands after `matches`", help));
        };
        pattern::mistake(text)
    }
}

/// An item of a list that is no value, or none of the column's type.
fn wrong_item(item: &[Lexeme<'_>], name: &str, data_type: Option<&str>) -> Option<Mistake> {
    let (first, last) = (item.first()?, item.last()?);
    let range = first.range.start..last.range.end;
    let is_truth = |lexeme: &Lexeme<'_>| ["true", "false"].contains(&lexeme.text);
    let value = match item {
        [sign, number] if sign.is("-") => number,
        [value] => value,
        _ => {
            let help = format!("between two values: `{name} >= 1 and {name} <= 5`");
            return Some(Mistake::new(range, "this is no value of a list", help));
        }
    };
    let is_numeric = value.kind == LexemeKind::Number;
    if value.kind != LexemeKind::Text && !is_numeric && !is_truth(value) {
        let help = format!("text stands in double quotes: \"{}\"", value.text);
        return Some(Mistake::new(range, format!("`{}` is no value", value.text), help));
    }
    let data_type = data_type?;
    let help = match data_type {
        "String" if value.kind != LexemeKind::Text => format!("write \"{}\"", value.text),
        "Bool" if !is_truth(value) => match value.unquoted() {
            "1" | "true" => "write `true`".to_owned(),
            "0" | "false" => "write `false`".to_owned(),
            _ => "write `true` or `false`".to_owned(),
        },
        "String" | "Bool" => return None,
        _ if is_numeric => return None,
        _ if is_number(value.unquoted()) => format!("write {}", value.unquoted()),
        _ => format!("write numbers, or give `{name}` the type String in [events.columns]"),
    };
    Some(Mistake::new(range, format!("`{name}` is {data_type}, and this is no value of it"), help))
}
