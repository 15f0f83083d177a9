//! The files of a spool in memory, oldest first: 16 bytes each, made from names alone.
//!
//! The oldest is found in a microsecond, however many wait. The order of a folder's listing is that of
//! hashes: whoever takes the oldest of the first 1,000 entries never comes to the oldest of all.

use std::collections::{BTreeMap, HashMap};

use super::name::BatchName;

/// A file's place in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) unix: u32,
    counter: u32,
    /// An instance, or one of the odd names.
    writer: u32,
}

/// From here on a writer is an odd name.
const ODD: u32 = 1 << 31;

/// The files, oldest first.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// With their sizes, as far as they were measured: one more than the bytes, so that 0 is "not yet".
    files: BTreeMap<Key, u32>,
    instances: Vec<String>,
    instance_numbers: HashMap<String, u32>,
    /// Names that do not follow the rule.
    odd: HashMap<u32, String>,
    odd_keys: HashMap<String, Key>,
    next_odd: u32,
    bytes: u64,
    unmeasured: usize,
}

impl Index {
    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// The bytes of all files that were measured.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) const fn unmeasured(&self) -> usize {
        self.unmeasured
    }

    /// Adds a file; one that is known already stays as it is. A name that tells no time is as old as its
    /// discovery.
    pub(super) fn add(&mut self, name: &str, now: u32) -> Key {
        let key = self.key(name).unwrap_or_else(|| self.new_key(name, now));
        if let std::collections::btree_map::Entry::Vacant(vacant) = self.files.entry(key) {
            vacant.insert(0);
            self.unmeasured += 1;
        }
        key
    }

    pub(super) fn measure(&mut self, key: Key, bytes: u64) {
        let Some(size) = self.files.get_mut(&key) else { return };
        let old = measured(*size);
        *size = u32::try_from(bytes).unwrap_or(u32::MAX).saturating_add(1);
        self.bytes = self.bytes - old.unwrap_or_default() + u64::from(*size - 1);
        self.unmeasured -= usize::from(old.is_none());
    }

    /// Takes a file out.
    pub(super) fn remove(&mut self, key: Key) {
        let Some(size) = self.files.remove(&key) else { return };
        match measured(size) {
            Some(bytes) => self.bytes -= bytes,
            None => self.unmeasured -= 1,
        }
        if let Some(name) = self.odd.remove(&key.writer) {
            self.odd_keys.remove(&name);
        }
    }

    /// The file of this name, if it is there, and its size, if it was measured.
    pub(super) fn find(&self, name: &str) -> Option<(Key, Option<u64>)> {
        let key = self.key(name)?;
        self.files.get(&key).map(|size| (key, measured(*size)))
    }

    pub(super) fn oldest(&self) -> Option<Key> {
        self.files.first_key_value().map(|(key, _)| *key)
    }

    /// The files after this one, or all of them, oldest first.
    pub(super) fn after(&self, key: Option<Key>) -> impl Iterator<Item = (Key, Option<u64>)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = key.map_or(Unbounded, Excluded);
        self.files.range((from, Unbounded)).map(|(key, size)| (*key, measured(*size)))
    }

    /// The files of this second and before, newest first.
    pub(super) fn until(&self, unix: u32) -> impl Iterator<Item = (Key, Option<u64>)> {
        let last = Key { unix, counter: u32::MAX, writer: u32::MAX };
        self.files.range(..=last).rev().map(|(key, size)| (*key, measured(*size)))
    }

    /// The files of this second and later, oldest first.
    pub(super) fn from(&self, unix: u32) -> impl Iterator<Item = (Key, Option<u64>)> {
        let first = Key { unix, counter: 0, writer: 0 };
        self.files.range(first..).map(|(key, size)| (*key, measured(*size)))
    }

    pub(super) fn name(&self, key: Key) -> String {
        if let Some(odd) = self.odd.get(&key.writer) {
            return odd.clone();
        }
        let instance = self.instances.get(key.writer as usize).map_or("", String::as_str);
        BatchName { unix: key.unix, instance, counter: key.counter }.to_string()
    }

    /// The key of a name, if its writer is known; the file may be gone.
    pub(super) fn key(&self, name: &str) -> Option<Key> {
        if let Some(key) = self.odd_keys.get(name) {
            return Some(*key);
        }
        let BatchName { unix, instance, counter } = BatchName::parse(name)?;
        self.instance_numbers.get(instance).map(|writer| Key { unix, counter, writer: *writer })
    }

    fn new_key(&mut self, name: &str, now: u32) -> Key {
        if let Some(BatchName { unix, instance, counter }) = BatchName::parse(name) {
            let writer = u32::try_from(self.instances.len()).unwrap_or(ODD - 1);
            self.instances.push(instance.to_owned());
            self.instance_numbers.insert(instance.to_owned(), writer);
            return Key { unix, counter, writer };
        }
        let loosely = BatchName::parse_loosely(name);
        let (unix, counter) = loosely.map_or((now, self.next_odd), |name| (name.unix, name.counter));
        let key = Key { unix, counter, writer: ODD | self.next_odd };
        self.next_odd = (self.next_odd + 1) % ODD;
        self.odd.insert(key.writer, name.to_owned());
        self.odd_keys.insert(name.to_owned(), key);
        key
    }
}

/// The size of a file that was measured.
fn measured(size: u32) -> Option<u64> {
    size.checked_sub(1).map(u64::from)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name() -> impl Strategy<Value = String> {
        prop_oneof![
            4 => (1_u32..20, "[ab]", 0_u32..5).prop_map(|(unix, instance, counter)| {
                BatchName { unix, instance: &instance, counter }.to_string()
            }),
            1 => "[xy]{1,2}",
            1 => (1_u32..20, 0_u32..5).prop_map(|(unix, counter)| format!("{unix}_a_{counter}.jsonl.gz")),
        ]
    }

    fn age(name: &str) -> (u32, u32) {
        BatchName::parse_loosely(name).map_or((10, 0), |name| (name.unix, name.counter))
    }

    proptest! {
        #[test]
        fn it_is_a_sorted_list_of_names(steps in prop::collection::vec((name(), 0_u8..3), 0..60)) {
            let mut index = Index::default();
            let mut model = BTreeMap::<String, Option<u64>>::new();
            for (name, step) in steps {
                match step {
                    0 => {
                        index.add(&name, 10);
                        model.entry(name).or_default();
                    }
                    1 => if let Some(key) = index.key(&name) {
                        index.measure(key, name.len() as u64);
                        model.entry(name.clone()).and_modify(|size| *size = Some(name.len() as u64));
                    },
                    _ => {
                        if let Some(key) = index.key(&name) {
                            index.remove(key);
                        }
                        model.remove(&name);
                    }
                }
            }
            let listed: Vec<_> = index.after(None).map(|(key, size)| (index.name(key), size)).collect();
            prop_assert!(listed.iter().map(|(name, _)| age(name).0).is_sorted());
            for (name, size) in &listed {
                prop_assert_eq!(index.find(name).map(|(_, size)| size), Some(*size));
            }
            prop_assert_eq!(listed.iter().cloned().collect::<BTreeMap<_, _>>(), model.clone());
            prop_assert_eq!(index.len(), listed.len());
            prop_assert_eq!(index.bytes(), model.values().flatten().sum::<u64>());
            prop_assert_eq!(index.unmeasured(), model.values().filter(|size| size.is_none()).count());
        }
    }
}
