//! Settings that come many at a time: lists of tables, and names that the user chooses.

use super::Section;
use crate::config::document::{Node, Value};
use crate::config::finding::Default;
use crate::config::setting::Setting;

impl<'a> Section<'a> {
    /// A list of tables; empty when it is not written.
    pub(crate) fn list<T>(
        &mut self,
        name: &'static str,
        doc: &'static str,
        mut read: impl FnMut(&mut Section<'_>) -> Option<T>,
    ) -> Vec<T> {
        self.declare_structure(name, "list of tables", Default::Value("[]"), doc);
        if self.is_described() {
            let mut child = self.child_at(format!("{}[]", self.path_of(name)), self.place.clone(), None);
            read(&mut child);
            self.absorb(child.finish());
        }
        let mut values = Vec::new();
        for (index, node) in self.items(name).iter().enumerate() {
            let path = format!("{}[{index}]", self.path_of(name));
            let table = self.table_of(&path, node);
            let mut child = self.child_at(path, node.origin.clone(), table);
            values.extend(read(&mut child));
            self.absorb(child.finish());
        }
        values
    }

    /// Tables under names that the user chooses.
    pub(crate) fn named_tables<T>(
        &mut self,
        placeholder: &'static str,
        mut read: impl FnMut(&str, &mut Section<'_>) -> Option<T>,
    ) -> Vec<T> {
        self.takes_any_key = true;
        if self.is_described() {
            let mut child = self.child(placeholder, None);
            read(placeholder, &mut child);
            self.absorb(child.finish());
        }
        let mut values = Vec::new();
        for entry in self.entries() {
            let mut child = self.child(&entry.key, Some(entry));
            values.extend(read(&entry.key, &mut child));
            self.absorb(child.finish());
        }
        values
    }

    /// Values under names that the user chooses.
    pub(crate) fn named_values<T: Setting>(
        &mut self,
        placeholder: &'static str,
        doc: &'static str,
    ) -> Vec<(String, T)> {
        self.takes_any_key = true;
        if self.is_described() {
            self.declare::<T>(placeholder, Default::Absent, doc);
        }
        let mut values = Vec::new();
        for entry in self.entries() {
            if let Some(value) = self.read(entry) {
                values.push((entry.key.clone(), value));
            }
        }
        values
    }

    fn items(&mut self, name: &'static str) -> &'a [Node] {
        let Some(entry) = self.entry(name) else { return &[] };
        if let Value::List(nodes) = &entry.node.value {
            return nodes;
        }
        self.hide(&entry.node);
        self.refuse(name, format!("found {}, expected a list of tables", entry.node.value.kind()));
        &[]
    }
}
