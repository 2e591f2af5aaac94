//! The types of RTLola that generated specifications use, with small domains of values.

use super::random::Random;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ty {
    Bool,
    /// With this number of bits.
    Int(u8),
    UInt(u8),
    Float(u8),
    Fixed,
    UFixed,
    Text,
    Bytes,
    Tuple(Vec<Ty>),
}

pub(super) const INT: Ty = Ty::Int(64);
pub(super) const UINT: Ty = Ty::UInt(64);
pub(super) const FLOAT: Ty = Ty::Float(64);

impl Ty {
    /// Name of the type in RTLola.
    pub(super) fn name(&self) -> String {
        match self {
            Ty::Bool => "Bool".to_owned(),
            Ty::Int(bits) => format!("Int{bits}"),
            Ty::UInt(bits) => format!("UInt{bits}"),
            Ty::Float(bits) => format!("Float{bits}"),
            Ty::Fixed => "Fixed64".to_owned(),
            Ty::UFixed => "UFixed64".to_owned(),
            Ty::Text => "String".to_owned(),
            Ty::Bytes => "Bytes".to_owned(),
            Ty::Tuple(parts) => {
                format!("({})", parts.iter().map(Ty::name).collect::<Vec<_>>().join(", "))
            }
        }
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self, Ty::Int(_) | Ty::UInt(_) | Ty::Float(_) | Ty::Fixed | Ty::UFixed)
    }

    /// Whether the interpreter can order values of the type.
    pub(super) fn is_ordered(&self) -> bool {
        self.is_number() || *self == Ty::Text
    }

    /// A constant; `None` for bytes, which have no literals.
    pub(super) fn literal(&self, random: &mut Random) -> Option<String> {
        let small = random.below(6);
        Some(match self {
            Ty::Bool => random.pick(&["true", "false"]).to_owned(),
            Ty::Int(_) if random.chance(20) => format!("-{}", small + 1),
            Ty::Int(_) | Ty::UInt(_) => small.to_string(),
            Ty::Float(_) => quarters(random.below(24) as i64 - 6),
            Ty::Fixed | Ty::UFixed => quarters(random.below(16) as i64),
            Ty::Text => format!("{:?}", random.pick(&["F", "M", "D"])),
            Ty::Bytes => return None,
            Ty::Tuple(parts) => {
                let parts: Option<Vec<String>> = parts.iter().map(|part| part.literal(random)).collect();
                format!("({})", parts?.join(", "))
            }
        })
    }

    /// The values of an input of this type in a trace, in the notation of CSV, or JSON for a tuple. Few values, so
    /// that they coincide.
    pub(super) fn domain(&self) -> Vec<String> {
        let numbers = |from: i64, to: i64| (from..=to).map(|number| number.to_string()).collect();
        let texts = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        match self {
            Ty::Bool => texts(&["true", "false"]),
            Ty::Int(_) => numbers(-5, 9),
            Ty::UInt(_) => numbers(0, 4),
            Ty::Float(_) => (-6..18).map(quarters).collect(),
            Ty::Fixed => (-3..9).map(quarters).collect(),
            Ty::UFixed => (0..9).map(quarters).collect(),
            Ty::Text => texts(&["F", "M", "D"]),
            Ty::Tuple(parts) => {
                let tuple = |step: usize| {
                    let value = |(index, part): (usize, &Ty)| {
                        let domain = part.domain();
                        let text = &domain[step * (index + 2) / 2 % domain.len()];
                        match part {
                            Ty::Text | Ty::Bytes => format!("{text:?}"),
                            _ => text.clone(),
                        }
                    };
                    format!("[{}]", parts.iter().enumerate().map(value).collect::<Vec<_>>().join(","))
                };
                (0..6).map(tuple).collect()
            }
            Ty::Bytes => texts(&["00", "41ff", "a0"]),
        }
    }
}

fn quarters(quarters: i64) -> String {
    let number = quarters as f64 / 4.0;
    format!("{number:?}")
}
