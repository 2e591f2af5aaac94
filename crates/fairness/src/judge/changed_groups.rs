//! The groups of a stratum whose counts have changed since the last check.

/// Dirty set over the indices of groups.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ChangedGroups {
    indices: Vec<usize>,
    /// For each index whether it is among `indices`.
    is_listed: Vec<bool>,
}

impl ChangedGroups {
    pub(super) fn insert(&mut self, index: usize) {
        if self.is_listed.len() <= index {
            self.is_listed.resize(index + 1, false);
        }
        if !std::mem::replace(&mut self.is_listed[index], true) {
            self.indices.push(index);
        }
    }

    pub(super) fn contains(&self, index: usize) -> bool {
        self.is_listed.get(index).copied().unwrap_or_default()
    }

    /// Moves all indices to `indices`, whose content is replaced.
    pub(super) fn move_to(&mut self, indices: &mut Vec<usize>) {
        indices.clear();
        indices.append(&mut self.indices);
        indices.iter().for_each(|index| self.is_listed[*index] = false);
    }
}
