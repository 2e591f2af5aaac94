//! Formats values for messages.

use std::fmt::Write;

use rtlola_frontend::mir::Type;

use crate::compiled::ir::layout::{inner, width};
use crate::compiled::ir::op::FormatPart;
use crate::compiled::ir::scalar::decimal;
use crate::compiled::store::interner::Interner;

/// Appends a value of the frame to a text; `None` if it is absent.
pub(crate) fn format_part(text: &mut String, part: &FormatPart, frame: &[u64], interner: &Interner) {
    if part.flag.is_some_and(|flag| frame[flag as usize] == 0) {
        text.push_str("None");
        return;
    }
    let words = &frame[part.base as usize..];
    show(text, inner(&part.ty), words, interner);
}

/// Appends a value of a type, which begins at the first of the words, to a text.
pub(crate) fn show(text: &mut String, ty: &Type, words: &[u64], interner: &Interner) {
    // Writing to a string cannot fail.
    let _ = match ty {
        Type::Bool => write!(text, "{}", words[0] != 0),
        Type::UInt(_) => write!(text, "{}", words[0]),
        Type::Int(_) => write!(text, "{}", words[0].cast_signed()),
        Type::Float(_) => write!(text, "{}", f64::from_bits(words[0])),
        Type::Fixed(_) | Type::UFixed(_) => write!(text, "{}", decimal(words)),
        Type::String => {
            text.push_str(interner.text(words[0]));
            Ok(())
        }
        Type::Bytes => interner.bytes(words[0]).iter().try_for_each(|byte| write!(text, "{byte:02X}")),
        Type::Tuple(parts) => {
            text.push('(');
            let mut at = 0;
            for (index, part) in parts.iter().enumerate() {
                if index > 0 {
                    text.push_str(", ");
                }
                show(text, part, &words[at..], interner);
                at += width(part);
            }
            text.push(')');
            Ok(())
        }
        Type::Option(inner) => {
            if words[0] == 0 {
                text.push_str("None");
            } else {
                show(text, inner, &words[1..], interner);
            }
            Ok(())
        }
        Type::Function { .. } => Ok(()),
    };
}
