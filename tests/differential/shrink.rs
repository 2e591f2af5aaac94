//! Shrinks a case to what its difference needs: fewer events, fewer streams, shorter expressions. It knows of
//! RTLola only that operations are in parentheses; the frontend decides what is valid.

use super::run::Case;

/// The smallest case that `differs` still accepts, within a number of attempts.
pub(super) fn shrink(case: Case, differs: impl Fn(&Case) -> bool) -> Case {
    let mut shrinker = Shrinker { case, differs, tries: 4000 };
    loop {
        let before = shrinker.size();
        shrinker.events();
        shrinker.declarations();
        shrinker.expressions();
        shrinker.values();
        if shrinker.size() == before || shrinker.tries == 0 {
            break;
        }
    }
    shrinker.columns();
    shrinker.case
}

struct Shrinker<F> {
    case: Case,
    differs: F,
    tries: usize,
}

impl<F: Fn(&Case) -> bool> Shrinker<F> {
    fn size(&self) -> (usize, usize, usize) {
        let cells = self.case.trace.events.iter().flat_map(|event| &event.values);
        (self.case.spec().len(), self.case.trace.events.len(), cells.flatten().count())
    }

    /// Keeps `candidate` if the engines still differ on it.
    fn keep(&mut self, candidate: Case) -> bool {
        if self.tries == 0 {
            return false;
        }
        self.tries -= 1;
        let better = (self.differs)(&candidate);
        if better {
            self.case = candidate;
        }
        better
    }

    fn events(&mut self) {
        let mut chunk = self.case.trace.events.len().div_ceil(2).max(1);
        loop {
            let mut from = 0;
            while from < self.case.trace.events.len() {
                let mut candidate = self.case.clone();
                let to = (from + chunk).min(candidate.trace.events.len());
                candidate.trace.events.drain(from..to);
                if !self.keep(candidate) {
                    from += chunk;
                }
            }
            if chunk == 1 {
                break;
            }
            chunk /= 2;
        }
        for until in [i64::MIN, self.case.trace.events.last().map_or(0, |event| event.time)] {
            let mut candidate = self.case.clone();
            candidate.trace.until = until;
            if candidate.trace.until != self.case.trace.until && self.keep(candidate) {
                break;
            }
        }
    }

    fn declarations(&mut self) {
        for index in (0..self.case.declarations.len()).rev() {
            let mut candidate = self.case.clone();
            candidate.declarations.remove(index);
            if self.keep(candidate) {
                continue;
            }
            let lines = self.case.declarations[index].lines().count();
            for line in (1..lines).rev() {
                let mut candidate = self.case.clone();
                let mut kept: Vec<&str> = self.case.declarations[index].lines().collect();
                kept.remove(line);
                candidate.declarations[index] = kept.join("\n");
                self.keep(candidate);
            }
        }
        for index in (0..self.case.inputs.len()).rev() {
            let mut candidate = self.case.clone();
            candidate.inputs.remove(index);
            self.keep(candidate);
        }
    }

    fn expressions(&mut self) {
        for index in 0..self.case.declarations.len() {
            let mut number = 0;
            while let Some(text) = simpler(&self.case.declarations[index]).into_iter().nth(number) {
                let mut candidate = self.case.clone();
                candidate.declarations[index] = text;
                if !self.keep(candidate) {
                    number += 1;
                }
                if self.tries == 0 {
                    return;
                }
            }
        }
    }

    fn values(&mut self) {
        for event in 0..self.case.trace.events.len() {
            for column in 0..self.case.trace.columns.len() {
                if self.case.trace.events[event].values[column].is_some() {
                    let mut candidate = self.case.clone();
                    candidate.trace.events[event].values[column] = None;
                    self.keep(candidate);
                }
            }
        }
    }

    /// Removes columns that no input reads.
    fn columns(&mut self) {
        let trace = &mut self.case.trace;
        for index in (0..trace.columns.len()).rev() {
            if !self.case.inputs.iter().any(|input| input.name == trace.columns[index]) {
                trace.columns.remove(index);
                trace.events.iter_mut().for_each(|event| drop(event.values.remove(index)));
            }
        }
    }
}

/// Shorter texts: without a condition, with an operation replaced by one of its operands, with an operand replaced
/// by a constant.
fn simpler(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    if let (Some(when), Some(with)) = (text.find(" when "), text.rfind(" with "))
        && when < with
        && !text[when..with].contains('\n')
    {
        found.push(format!("{}{}", &text[..when], &text[with..]));
    }
    let bytes = text.as_bytes();
    for open in (0..bytes.len()).filter(|at| bytes[*at] == b'(') {
        let Some(close) = closing(bytes, open) else { continue };
        for (from, to) in words(bytes, open + 1, close) {
            found.push(format!("{}{}{}", &text[..open], &text[from..to], &text[close + 1..]));
        }
    }
    let lines = text.split_inclusive('\n').scan(0, |at, line| {
        *at += line.len();
        Some((*at - line.len(), *at))
    });
    for (from, to) in lines {
        for (from, to) in words(bytes, from, to) {
            for constant in ["0", "1", "0.5", "true", "\"F\""] {
                if to - from > constant.len() {
                    found.push(format!("{}{constant}{}", &text[..from], &text[to..]));
                }
            }
        }
    }
    found.retain(|other| other.len() < text.len());
    found
}

/// Index of the parenthesis that closes the one at `open`.
fn closing(bytes: &[u8], open: usize) -> Option<usize> {
    let mut depth = 0;
    (open..bytes.len()).find(|at| {
        match bytes[*at] {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        depth == 0
    })
}

/// The parts between blanks and commas outside of further parentheses.
fn words(bytes: &[u8], from: usize, to: usize) -> Vec<(usize, usize)> {
    let (mut depth, mut start, mut found) = (0, from, Vec::new());
    for at in from..=to {
        match bytes.get(at).filter(|_| at < to) {
            Some(b'(') => depth += 1,
            Some(b')') => depth -= 1,
            Some(b' ' | b',' | b'\n') | None if depth == 0 => {
                if at > start {
                    found.push((start, at));
                }
                start = at + 1;
            }
            _ => {}
        }
    }
    found
}

#[test]
fn an_expression_has_simpler_ones() {
    let found: Vec<String> = simpler("output x @a := ((a + f(b)) * 2)");
    for wanted in
        ["output x @a := 2", "output x @a := (a * 2)", "output x @a := (f(b) * 2)", "output x @a := 0"]
    {
        assert!(found.iter().any(|text| text == wanted), "{wanted}: {found:#?}");
    }
    let filtered: Vec<String> = simpler("output x\n  eval @a when a > 2 with a");
    assert_eq!(filtered[0], "output x\n  eval @a with a");
}
