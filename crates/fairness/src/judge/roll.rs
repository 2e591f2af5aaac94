//! Things by name: in the order of their names for whoever goes through them, by number for whoever knows one.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Things with names. Each has the number of those that came before it, for good.
#[derive(Clone, Debug)]
pub(crate) struct Roll<T> {
    /// In the order in which they came.
    items: Vec<(String, T)>,
    /// Their numbers, in the order of their names.
    order: Vec<usize>,
}

impl<T> Roll<T> {
    /// The number of the thing with a name, if it is there.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.search(name).ok().map(|at| self.order[at])
    }

    fn search(&self, name: &str) -> Result<usize, usize> {
        self.order.binary_search_by(|number| self.items[*number].0.as_str().cmp(name))
    }

    /// The number of the thing with a name; `new` if there is none yet.
    pub(crate) fn enter(&mut self, name: &str, new: impl FnOnce() -> T) -> usize {
        match self.search(name) {
            Ok(at) => self.order[at],
            Err(at) => {
                let number = self.items.len();
                self.items.push((name.to_owned(), new()));
                self.order.insert(at, number);
                number
            }
        }
    }

    pub(crate) fn get(&self, number: usize) -> Option<(&str, &T)> {
        self.items.get(number).map(|(name, item)| (name.as_str(), item))
    }

    pub(crate) fn get_mut(&mut self, number: usize) -> Option<(&str, &mut T)> {
        self.items.get_mut(number).map(|(name, item)| (name.as_str(), item))
    }

    /// All of them, in the order of their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &T)> + Clone {
        self.order.iter().map(|number| (self.items[*number].0.as_str(), &self.items[*number].1))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> + Clone {
        self.iter().map(|(_, item)| item)
    }

    /// Puts numbers in the order of names.
    pub(crate) fn sort(&self, numbers: &mut [usize]) {
        if numbers.len() > 1 {
            numbers.sort_unstable_by(|one, other| self.items[*one].0.cmp(&self.items[*other].0));
        }
    }
}

impl<T> Default for Roll<T> {
    fn default() -> Roll<T> {
        Roll { items: Vec::new(), order: Vec::new() }
    }
}

/// The same things under the same names, whenever they came.
impl<T: PartialEq> PartialEq for Roll<T> {
    fn eq(&self, other: &Roll<T>) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<T: Serialize> Serialize for Roll<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&self.items)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Roll<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Roll<T>, D::Error> {
        let mut roll = Roll::default();
        for (name, item) in <Vec<(String, T)>>::deserialize(deserializer)? {
            roll.enter(&name, || item);
        }
        Ok(roll)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_roll_is_a_map_whose_numbers_stay(names in prop::collection::vec("[ab]{0,3}", 0..20)) {
            let (mut roll, mut map, mut numbers) = (Roll::default(), BTreeMap::new(), Vec::new());
            for (at, name) in names.iter().enumerate() {
                map.entry(name.as_str()).or_insert(at);
                numbers.push((roll.enter(name, || at), name));
            }
            prop_assert!(roll.iter().eq(map.iter().map(|(name, at)| (*name, at))));
            for (number, name) in numbers {
                prop_assert_eq!(roll.find(name), Some(number));
                prop_assert_eq!(roll.get(number), Some((name.as_str(), &map[name.as_str()])));
            }
            let written = postcard::to_stdvec(&roll).unwrap();
            let read: Roll<usize> = postcard::from_bytes(&written).unwrap();
            prop_assert_eq!((&read.items, &read.order), (&roll.items, &roll.order));
            prop_assert_eq!(roll.find("c"), None);
        }
    }
}
