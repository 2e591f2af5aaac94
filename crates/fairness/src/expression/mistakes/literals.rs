//! Mistakes in texts and numbers.

use super::{Lexemes, Mistake};
use crate::expression::is_number;
use crate::expression::lexeme::{Lexeme, LexemeKind};

impl Lexemes<'_> {
    pub(super) fn quote(&self, index: usize) -> Option<Mistake> {
        let lexeme = self.get(index)?;
        match lexeme.kind {
            LexemeKind::OtherText => {
                let help = format!("write \"{}\"", lexeme.unquoted());
                Some(Mistake::new(lexeme.range.clone(), "text stands in double quotes", help))
            }
            LexemeKind::Text if lexeme.text.len() < 2 || !lexeme.text.ends_with('"') => {
                let range = lexeme.range.clone();
                Some(Mistake::new(range, "this text has no end", "write a double quote after it"))
            }
            _ => None,
        }
    }

    pub(super) fn number(&self, index: usize) -> Option<Mistake> {
        let lexeme = self.get(index)?;
        if lexeme.is(".")
            && let Some(decimals) = self.get(index + 1)
            && decimals.kind == LexemeKind::Number
            && !self.before(index).is_some_and(Lexeme::ends_operand)
        {
            let range = lexeme.range.start..decimals.range.end;
            return Some(Mistake::new(
                range,
                "a number begins with a digit",
                format!("write 0.{}", decimals.text),
            ));
        }
        if lexeme.kind != LexemeKind::Number {
            return None;
        }
        if self.is(index + 1, ",") && self.depth(index) == 0 {
            let thousands = self.get(index + 2).filter(|next| next.kind == LexemeKind::Number)?;
            let range = lexeme.range.start..thousands.range.end;
            let help =
                format!("write {}{}, or {}.{}", lexeme.text, thousands.text, lexeme.text, thousands.text);
            return Some(Mistake::new(range, "a number has no comma", help));
        }
        let hexadecimal =
            lexeme.text.strip_prefix("0x").and_then(|digits| u32::from_str_radix(digits, 16).ok());
        if let Some(number) = hexadecimal {
            let help = format!("write {number}");
            return Some(Mistake::new(lexeme.range.clone(), "numbers are decimal", help));
        }
        let digits = lexeme.text.replace('_', "");
        if digits != lexeme.text && is_number(&digits) {
            let help = format!("write {digits}");
            return Some(Mistake::new(lexeme.range.clone(), "a number has digits alone", help));
        }
        /// What the numbers of RTLola can be at most: 96 bits without their sign.
        const LARGEST: f64 = 7.9e28;
        if digits.parse::<f64>().is_ok_and(|number| number > LARGEST) {
            let message = "this number is too large";
            return Some(Mistake::new(
                lexeme.range.clone(),
                message,
                "numbers of conditions are below 7.9e28",
            ));
        }
        None
    }
}
