//! Lowers function calls.

use regex::Regex;
use regex::bytes::Regex as BytesRegex;
use rtlola_frontend::mir::{ArithLogOp, Constant, Expression, ExpressionKind, Type};

use super::expression::{Operand, leaf};
use super::{PlanBuilder, Unsupported};
use crate::compiled::ir::layout::Leaf;
use crate::compiled::ir::op::{FormatPart, RareOp, Unary};

impl PlanBuilder<'_> {
    pub(super) fn function(
        &mut self,
        expression: &Expression,
        name: &str,
        arguments: &[Expression],
    ) -> Result<Operand, Unsupported> {
        let unary = match name {
            "sqrt" => Some(Unary::Sqrt),
            "sin" => Some(Unary::Sin),
            "cos" => Some(Unary::Cos),
            "tan" => Some(Unary::Tan),
            "arcsin" => Some(Unary::Asin),
            "arccos" => Some(Unary::Acos),
            "arctan" => Some(Unary::Atan),
            "abs" => Some(Unary::Abs),
            _ => None,
        };
        match (unary, name, arguments) {
            (Some(operation), _, [operand]) => self.unary(expression, operation, operand),
            (_, "min" | "max", [left, right]) => {
                let less = if name == "min" { ArithLogOp::Le } else { ArithLogOp::Ge };
                let to = self.reserve_for(&expression.ty);
                let (a, b) = (self.expression(left)?, self.expression(right)?);
                let Some(leaf) = leaf(&left.ty) else {
                    return Err(Unsupported::construct(format!("`{name}`")));
                };
                let flag = self.reserve(1);
                self.emit_rare(RareOp::Compare { operation: less, leaf, a: a.base, b: b.base, to: flag });
                let other = self.jump_unless(flag);
                self.copy(a, to, &expression.ty);
                let done = self.jump();
                self.land(&[other]);
                self.copy(b, to, &expression.ty);
                self.land(&[done]);
                Ok(to)
            }
            (_, "round", [value, Expression { kind: ExpressionKind::LoadConstant(digits), .. }]) => {
                let digits = match digits {
                    Constant::UInt(digits) => u32::try_from(*digits).unwrap_or(u32::MAX),
                    Constant::Int(digits) => u32::try_from(*digits).unwrap_or(u32::MAX),
                    _ => u32::MAX,
                };
                if leaf(&value.ty) != Some(Leaf::Float) {
                    return Err(Unsupported::construct(format!("`round` of {}", value.ty)));
                }
                let factor = 10_u64.checked_pow(digits);
                let factor =
                    factor.ok_or_else(|| Unsupported::construct("`round` to so many digits"))? as f64;
                let a = self.expression(value)?.base;
                let to = self.reserve(1);
                self.mark_origin(expression);
                self.emit_rare(RareOp::Round { factor, a, to });
                Ok(Operand::at(to))
            }
            (_, "matches", [value, pattern]) => {
                let ExpressionKind::LoadConstant(Constant::Str(pattern)) = &pattern.kind else {
                    return Err(Unsupported::construct("`matches` with a pattern that is no literal"));
                };
                let bad = |error: regex::Error| Unsupported::construct(format!("`matches`: {error}"));
                let a = self.expression(value)?.base;
                let to = self.reserve(1);
                match value.ty {
                    Type::Bytes => {
                        let regex = BytesRegex::new(pattern).map_err(bad)?;
                        self.emit_rare(RareOp::BytesMatch { regex, a, to });
                    }
                    _ => {
                        let regex = Regex::new(pattern).map_err(bad)?;
                        self.emit_rare(RareOp::Matches { regex, a, to });
                    }
                }
                Ok(Operand::at(to))
            }
            (_, "at", [value, index]) => {
                let (a, index) = (self.expression(value)?.base, self.expression(index)?.base);
                let to = self.reserve(2);
                self.emit_rare(RareOp::ByteAt { a, index, to });
                Ok(Operand::optional(to))
            }
            (
                _,
                "format",
                [Expression { kind: ExpressionKind::LoadConstant(Constant::Str(text)), .. }, rest @ ..],
            ) => {
                let mut parts = Vec::new();
                for value in rest {
                    let Operand { flag, base } = self.expression(value)?;
                    parts.push(FormatPart { ty: value.ty.clone(), flag, base });
                }
                let to = self.reserve(1);
                self.emit_rare(RareOp::Format { pieces: pieces(text, parts.len()), parts, to });
                Ok(Operand::at(to))
            }
            _ => Err(Unsupported::construct(format!("the function `{name}`"))),
        }
    }
}

/// Cuts a template at its first placeholders `{{…}}`, as many as there are values.
fn pieces(template: &str, values: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut rest = template;
    while pieces.len() <= values
        && let Some((from, to)) = placeholder(rest)
    {
        if let Some(last) = pieces.last_mut() {
            last.push_str(&rest[..from]);
        }
        pieces.push(String::new());
        rest = &rest[to..];
    }
    if let Some(last) = pieces.last_mut() {
        last.push_str(rest);
    }
    pieces
}

/// The byte range of the first `{{…}}` without a brace inside.
fn placeholder(text: &str) -> Option<(usize, usize)> {
    let mut from = 0;
    while let Some(found) = text[from..].find("{{") {
        let open = from + found;
        let inside = &text[open + 2..];
        let close = inside.find('}')?;
        if inside[close..].starts_with("}}") {
            return Some((open, open + 2 + close + 2));
        }
        from = open + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::pieces;

    #[test]
    fn a_template_is_cut_at_its_placeholders() {
        assert_eq!(pieces("{{a}} of {{}}!", 2), ["", " of ", "!"]);
        assert_eq!(pieces("{{a}} of {{b}}", 1), ["", " of {{b}}"]);
        assert_eq!(pieces("none", 1), ["none"]);
        assert_eq!(pieces("{ {{x} y}} {{z}}", 1), ["{ {{x} y}} ", ""]);
    }
}
