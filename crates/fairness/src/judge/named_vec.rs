//! A vector of named items with stable indices, lookup by name, and iteration in the order of names. Insertion and lookup
//! do not depend on the number of items, until the order is first asked for.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::value_order::compare_values;

/// Named items. An index is assigned on insertion and never changes. Names are JSON arrays of values.
#[derive(Clone, Debug)]
pub(crate) struct NamedVec<T> {
    /// Items in order of insertion.
    items: Vec<(Arc<str>, T)>,
    /// Name → index into `items`.
    indices: HashMap<Arc<str>, usize>,
    /// Indices into `items`, in the order of names. Computed when items are first listed, then kept up to date.
    order: OnceLock<Vec<usize>>,
}

impl<T> NamedVec<T> {
    /// The index of the item with a name, if there is one.
    pub(crate) fn index_of(&self, name: &str) -> Option<usize> {
        self.indices.get(name).copied()
    }

    /// The index of the item with a name; inserts `new()` if there is none.
    pub(crate) fn index_or_insert(&mut self, name: &str, new: impl FnOnce() -> T) -> usize {
        if let Some(index) = self.index_of(name) {
            return index;
        }
        let index = self.items.len();
        let items = &self.items;
        if let Some(order) = self.order.get_mut() {
            let at = order.partition_point(|known| compare_values(&items[*known].0, name).is_lt());
            order.insert(at, index);
        }
        let name: Arc<str> = name.into();
        self.items.push((Arc::clone(&name), new()));
        self.indices.insert(name, index);
        index
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn get(&self, index: usize) -> Option<(&str, &T)> {
        self.items.get(index).map(|(name, item)| (&**name, item))
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<(&str, &mut T)> {
        self.items.get_mut(index).map(|(name, item)| (&**name, item))
    }

    /// All indices in the order of names.
    pub(crate) fn order(&self) -> &[usize] {
        self.order.get_or_init(|| {
            let mut order: Vec<usize> = (0..self.items.len()).collect();
            self.sort(&mut order);
            order
        })
    }

    /// All items in the order of names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &T)> + Clone {
        self.order().iter().map(|index| (&*self.items[*index].0, &self.items[*index].1))
    }

    /// All items in the order of names.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> + Clone {
        self.iter().map(|(_, item)| item)
    }

    /// All items in the order of insertion.
    pub(crate) fn unordered(&self) -> impl Iterator<Item = &T> + Clone {
        self.items.iter().map(|(_, item)| item)
    }

    /// All items with their names, in the order of insertion.
    pub(crate) fn in_order_of_insertion(&self) -> impl Iterator<Item = (&str, &T)> {
        self.items.iter().map(|(name, item)| (&**name, item))
    }

    /// Sorts indices by the names of their items.
    pub(crate) fn sort(&self, indices: &mut [usize]) {
        if indices.len() > 1 {
            indices.sort_unstable_by(|one, other| compare_values(&self.items[*one].0, &self.items[*other].0));
        }
    }
}

impl<T> Default for NamedVec<T> {
    fn default() -> NamedVec<T> {
        NamedVec { items: Vec::new(), indices: HashMap::new(), order: OnceLock::new() }
    }
}

/// Equal if the same names have equal items, whatever the order of insertion.
impl<T: PartialEq> PartialEq for NamedVec<T> {
    fn eq(&self, other: &NamedVec<T>) -> bool {
        self.iter().eq(other.iter())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::judge::value_order::ValuesKey;

    proptest! {
        #[test]
        fn a_named_vec_is_a_map_whose_indices_stay(
            names in prop::collection::vec("\\[[0-9]{1,2}\\]|\\[\"[ab]{0,2}\"\\]", 0..20), listed_at in 0..20_usize,
        ) {
            let (mut named, mut map, mut indices) = (NamedVec::default(), BTreeMap::new(), Vec::new());
            for (at, name) in names.iter().enumerate() {
                if at == listed_at {
                    let _ = named.order();
                }
                map.entry(ValuesKey(name.as_str())).or_insert(at);
                indices.push((named.index_or_insert(name, || at), name));
            }
            prop_assert!(named.iter().eq(map.iter().map(|(name, at)| (name.0, at))));
            for (index, name) in indices {
                prop_assert_eq!(named.index_of(name), Some(index));
                prop_assert_eq!(named.get(index), Some((name.as_str(), &map[&ValuesKey(name.as_str())])));
            }
            let mut copy = NamedVec::default();
            named.in_order_of_insertion().for_each(|(name, item)| {
                copy.index_or_insert(name, || *item);
            });
            prop_assert_eq!((&copy.items, copy.order()), (&named.items, named.order()));
            prop_assert_eq!(named.index_of("[c]"), None);
        }
    }
}
