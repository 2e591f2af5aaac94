//! A vector of named items with stable indices, lookup by name, and iteration in order of names.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Named items. An index is assigned on insertion and never changes.
#[derive(Clone, Debug)]
pub(crate) struct NamedVec<T> {
    /// Items in order of insertion.
    items: Vec<(String, T)>,
    /// Indices into `items`, sorted by name.
    order: Vec<usize>,
}

impl<T> NamedVec<T> {
    /// The index of the item with a name, if there is one.
    pub(crate) fn index_of(&self, name: &str) -> Option<usize> {
        self.search(name).ok().map(|at| self.order[at])
    }

    fn search(&self, name: &str) -> Result<usize, usize> {
        self.order.binary_search_by(|index| self.items[*index].0.as_str().cmp(name))
    }

    /// The index of the item with a name; inserts `new()` if there is none.
    pub(crate) fn index_or_insert(&mut self, name: &str, new: impl FnOnce() -> T) -> usize {
        match self.search(name) {
            Ok(at) => self.order[at],
            Err(at) => {
                let index = self.items.len();
                self.items.push((name.to_owned(), new()));
                self.order.insert(at, index);
                index
            }
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<(&str, &T)> {
        self.items.get(index).map(|(name, item)| (name.as_str(), item))
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<(&str, &mut T)> {
        self.items.get_mut(index).map(|(name, item)| (name.as_str(), item))
    }

    /// All items in order of names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &T)> + Clone {
        self.order.iter().map(|index| (self.items[*index].0.as_str(), &self.items[*index].1))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> + Clone {
        self.iter().map(|(_, item)| item)
    }

    /// Sorts indices by the names of their items.
    pub(crate) fn sort(&self, indices: &mut [usize]) {
        if indices.len() > 1 {
            indices.sort_unstable_by(|one, other| self.items[*one].0.cmp(&self.items[*other].0));
        }
    }
}

impl<T> Default for NamedVec<T> {
    fn default() -> NamedVec<T> {
        NamedVec { items: Vec::new(), order: Vec::new() }
    }
}

/// Equal if the same names have equal items, whatever the order of insertion.
impl<T: PartialEq> PartialEq for NamedVec<T> {
    fn eq(&self, other: &NamedVec<T>) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<T: Serialize> Serialize for NamedVec<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&self.items)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for NamedVec<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<NamedVec<T>, D::Error> {
        let mut named = NamedVec::default();
        for (name, item) in <Vec<(String, T)>>::deserialize(deserializer)? {
            named.index_or_insert(&name, || item);
        }
        Ok(named)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_named_vec_is_a_map_whose_indices_stay(names in prop::collection::vec("[ab]{0,3}", 0..20)) {
            let (mut named, mut map, mut indices) = (NamedVec::default(), BTreeMap::new(), Vec::new());
            for (at, name) in names.iter().enumerate() {
                map.entry(name.as_str()).or_insert(at);
                indices.push((named.index_or_insert(name, || at), name));
            }
            prop_assert!(named.iter().eq(map.iter().map(|(name, at)| (*name, at))));
            for (index, name) in indices {
                prop_assert_eq!(named.index_of(name), Some(index));
                prop_assert_eq!(named.get(index), Some((name.as_str(), &map[name.as_str()])));
            }
            let written = postcard::to_stdvec(&named).unwrap();
            let read: NamedVec<usize> = postcard::from_bytes(&written).unwrap();
            prop_assert_eq!((&read.items, &read.order), (&named.items, &named.order));
            prop_assert_eq!(named.index_of("c"), None);
        }
    }
}
