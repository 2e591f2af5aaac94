//! Generates expressions of a requested type. Every operation is in parentheses, so that it can be shrunk.

use super::access::Scope;
use super::types::{FLOAT, INT, Ty, UINT};

impl Scope<'_> {
    /// An expression of that type, with at most `depth` levels.
    pub(super) fn expression(&mut self, ty: &Ty, depth: usize) -> String {
        if depth == 0 || self.random.chance(20) {
            return self.leaf(ty);
        }
        if self.random.chance(12) {
            let condition = self.expression(&Ty::Bool, depth - 1);
            let (yes, no) = (self.expression(ty, depth - 1), self.expression(ty, depth - 1));
            return format!("(if {condition} then {yes} else {no})");
        }
        if self.random.chance(6) {
            let other = self.expression(&Ty::Bool, 0);
            let wanted = self.expression(ty, depth - 1);
            return format!("({other}, {wanted}).1");
        }
        match ty {
            Ty::Bool => self.truth(depth),
            Ty::Int(64) => self.integer(depth),
            Ty::UInt(64) => self.unsigned(depth),
            Ty::Float(64) => self.float(depth),
            Ty::Fixed => {
                let (one, two) = (self.expression(ty, depth - 1), self.leaf(ty));
                match self.random.below(5) {
                    0 => format!("({one} * 2.0)"),
                    1 => format!("({one} - {two})"),
                    2 => format!("cast<Float64, Fixed64>({})", self.leaf(&FLOAT)),
                    _ => format!("({one} + {two})"),
                }
            }
            Ty::Int(_) | Ty::UInt(_) => self.extreme(ty),
            Ty::Text => {
                // Not for decimals: of 1.5 and 1.50 the interpreter returns the one that it encounters first.
                let of =
                    Some(self.some_type()).filter(|ty| !matches!(ty, Ty::Fixed | Ty::UFixed)).unwrap_or(UINT);
                let (one, two) = (self.leaf(&of), self.leaf(&INT));
                format!("\"{{{{a}}}} and {{{{b}}}}\".format({one}, {two})")
            }
            Ty::Tuple(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| self.expression(part, depth - 1)).collect();
                format!("({})", parts.join(", "))
            }
            Ty::Float(_) | Ty::UFixed | Ty::Bytes => self.leaf(ty),
        }
    }

    /// A constant, a parameter or a stream.
    pub(super) fn leaf(&mut self, ty: &Ty) -> String {
        self.anchor(ty).unwrap_or_else(|| ty.literal(self.random).unwrap_or_default())
    }

    /// Mostly not a constant, so that the type is unambiguous.
    fn anchor(&mut self, ty: &Ty) -> Option<String> {
        if self.random.chance(10) {
            return ty.literal(self.random);
        }
        if self.random.chance(25) {
            let params: Vec<&str> =
                self.params.iter().filter(|(_, other)| other == ty).map(|(name, _)| name.as_str()).collect();
            if !params.is_empty() {
                return Some(params[self.random.below(params.len())].to_owned());
            }
        }
        self.stream(ty)
    }

    /// A stream of that type, if there is one. Not a constant, whose type could be inferred differently.
    fn stream(&mut self, ty: &Ty) -> Option<String> {
        (0..4).find_map(|_| self.access(ty))
    }

    /// The minimum or maximum of two. The frontend infers a signed type for two constants.
    fn extreme(&mut self, ty: &Ty) -> String {
        match self.stream(ty) {
            Some(one) => format!("{}({one}, {})", self.random.pick(&["min", "max"]), self.leaf(ty)),
            None => ty.literal(self.random).unwrap_or_default(),
        }
    }

    /// A type of values that can be compared.
    fn some_type(&mut self) -> Ty {
        let types: Vec<Ty> = self.draft.inputs.iter().map(|input| input.ty.clone()).collect();
        match self.random.below(5) {
            0 => INT,
            1 => UINT,
            2 => FLOAT,
            _ => Some(self.random.choose(&types)).filter(|ty| *ty != Ty::Bytes).unwrap_or(Ty::Text),
        }
    }

    fn truth(&mut self, depth: usize) -> String {
        match self.random.weighted(&[14, 4, 2, 2, 5, 3]) {
            0 => {
                let ty = self.some_type();
                let (one, two) = (self.expression(&ty, depth - 1), self.leaf(&ty));
                let operators: &[&str] = if ty.is_ordered() {
                    &["=", "!=", "<", "<=", ">", ">=", "==", "≤"]
                } else {
                    &["=", "!="]
                };
                format!("({one} {} {two})", self.random.pick(operators))
            }
            1 => {
                let (one, two) =
                    (self.expression(&Ty::Bool, depth - 1), self.expression(&Ty::Bool, depth - 1));
                format!("({one} {} {two})", self.random.pick(&["∧", "∨", "&&", "||", "->", "and", "or"]))
            }
            2 => format!("!{}", self.leaf(&Ty::Bool)),
            3 => {
                let (one, two) = (self.leaf(&Ty::Text), self.leaf(&INT));
                let (three, four) = (self.leaf(&Ty::Text), self.leaf(&INT));
                format!("(({one}, {two}) = ({three}, {four}))")
            }
            4 => self.leaf(&Ty::Bool),
            _ => match self.sync(&Ty::Bytes) {
                Some(bytes) => format!("matches({bytes}, regex: \"A\")"),
                None => format!("matches({}, regex: \"^[FM]\")", self.leaf(&Ty::Text)),
            },
        }
    }

    fn integer(&mut self, depth: usize) -> String {
        let one = self.expression(&INT, depth - 1);
        match self.random.weighted(&[6, 4, 3, 2, 3, 3, 2, 2, 1, 2]) {
            0 => format!("({one} + {})", self.leaf(&INT)),
            1 => format!("({one} - {})", self.leaf(&INT)),
            2 => format!("({one} * {})", self.random.pick(&["2", "3", "-1"])),
            3 => {
                // Rarely a divisor that can be zero: then every engine stops at the same row.
                let by = if self.random.chance(8) { self.leaf(&INT) } else { "3".to_owned() };
                format!("({one} {} {by})", self.random.pick(&["/", "%"]))
            }
            4 => self.extreme(&INT),
            5 => match self.random.below(3) {
                0 => format!("cast<UInt64, Int64>({})", self.leaf(&UINT)),
                1 => format!("cast<Float64, Int64>({})", self.leaf(&FLOAT)),
                _ => match self.small_integer() {
                    Some((text, ty)) => format!("cast<{}, Int64>({text})", ty.name()),
                    None => one,
                },
            },
            6 => format!("abs({one})"),
            7 => format!("({one} {} {})", self.random.pick(&["&", "|", "^"]), self.leaf(&INT)),
            8 => format!("(-{one})"),
            _ => match self.random.below(2) {
                0 => format!("(({one} % 10) ** 2)"),
                _ => format!("~{}", self.leaf(&INT)),
            },
        }
    }

    /// A value of a narrower integer type, if one is available.
    fn small_integer(&mut self) -> Option<(String, Ty)> {
        let small = |ty: &Ty| matches!(ty, Ty::Int(bits) | Ty::UInt(bits) if *bits < 64);
        let types: Vec<Ty> =
            self.draft.inputs.iter().map(|input| input.ty.clone()).filter(|ty| small(ty)).collect();
        if types.is_empty() {
            return None;
        }
        let ty = self.random.choose(&types);
        Some((self.hold(&ty)?, ty))
    }

    fn unsigned(&mut self, depth: usize) -> String {
        let one = self.expression(&UINT, depth - 1);
        match self.random.weighted(&[8, 1, 2, 2, 2, 2, 2]) {
            0 => format!("({one} + {})", self.leaf(&UINT)),
            // Rarely negative: then every engine stops at the same row.
            1 => format!("(({one} + 50) - {})", self.leaf(&UINT)),
            2 => format!("({one} % {})", self.random.below(5) + 2),
            3 => self.extreme(&UINT),
            4 => format!("cast<Int64, UInt64>(abs({}))", self.leaf(&INT)),
            5 => format!("({one} {} {})", self.random.pick(&["&", "|", "^"]), self.leaf(&UINT)),
            // Not for signed numbers: the interpreter requires an unsigned shift, and the frontend a signed one.
            _ => match self.stream(&UINT) {
                Some(stream) => {
                    let operator = self.random.pick(&["<<", ">>"]);
                    format!("(({stream} % 100) {operator} {})", self.random.below(4))
                }
                None => one,
            },
        }
    }

    fn float(&mut self, depth: usize) -> String {
        let one = self.expression(&FLOAT, depth - 1);
        match self.random.weighted(&[6, 4, 3, 2, 3, 6, 2, 1, 1, 1]) {
            0 => format!("({one} + {})", self.leaf(&FLOAT)),
            1 => format!("({one} - {})", self.leaf(&FLOAT)),
            2 => format!("({one} * {})", self.random.pick(&["2.0", "0.5", "-1.0"])),
            // Rarely a divisor that can be zero, which gives an infinity or NaN.
            3 if self.random.chance(8) => format!("({one} / {})", self.leaf(&FLOAT)),
            3 => format!("({one} / 4.0)"),
            4 => self.extreme(&FLOAT),
            5 => match self.random.below(3) {
                0 => format!("cast<Int64, Float64>({})", self.leaf(&INT)),
                1 => format!("cast<Fixed64, Float64>({})", self.leaf(&Ty::Fixed)),
                _ => format!("cast<UInt64, Float64>({})", self.leaf(&UINT)),
            },
            6 => format!("sqrt(abs({one}))"),
            7 => format!("{}({one})", self.random.pick(&["sin", "cos", "arctan", "abs"])),
            8 => format!("round({one}, {})", self.random.below(3)),
            _ => format!("({one} ** 2.0)"),
        }
    }
}
