//! Unique names. Columns keep their names; a stream with the same name gets another one.

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

    /// A free name for a parameter.
    pub(super) fn new_letter(&mut self, wanted: &str) -> String {
        self.new_name(wanted)
    }
}
