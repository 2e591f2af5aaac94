//! Names that are not taken yet. Columns keep theirs; a stream that would have the same name gets
//! another.

use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub(super) struct Names {
    taken: BTreeSet<String>,
}

impl Names {
    pub(super) fn take(&mut self, name: &str) {
        self.taken.insert(name.to_owned());
    }

    /// `wanted`, or `wanted_2`, `wanted_3`, …
    pub(super) fn new_name(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        let mut number = 2;
        while !self.taken.insert(name.clone()) {
            name = format!("{wanted}_{number}");
            number += 1;
        }
        name
    }

    /// The first of `wanted` that is free, for parameters.
    pub(super) fn new_letter(&mut self, wanted: &str) -> String {
        self.new_name(wanted)
    }
}
