//! One table of the configuration, read key by key.
//!
//! A reader declares each setting where it reads it: name, default and a line of explanation. From
//! those declarations come the value, the mistakes (a wrong value, a missing key, a key that nobody
//! declared) and the reference in `docs/configuration.md`. Reading never stops at a mistake.

mod collection;

use super::document::{Entry, Node, Origin, Table, Value};
use super::environment::Environment;
use super::finding::{Cause, Declaration, Default, Finding, Findings};
use super::setting::{Setting, Wrong};
use super::suggestion::{alternatives, nearest};

/// A table that is being read.
pub(crate) struct Section<'a> {
    path: String,
    place: Origin,
    table: Option<&'a Table>,
    purpose: Purpose<'a>,
    known: Vec<Known>,
    takes_any_key: bool,
    findings: Findings,
}

/// A key that a reader asked for.
#[derive(Clone, Copy)]
struct Known {
    name: &'static str,
    /// Whether a value meant for this key may be a secret.
    is_sensitive: fn(&Node) -> bool,
}

/// What the reading is for.
#[derive(Clone, Copy)]
enum Purpose<'a> {
    /// To use the values.
    Use(&'a Environment),
    /// To list every setting there is; nothing is written in the table.
    Describe(&'a Environment),
}

impl<'a> Section<'a> {
    /// The whole file.
    pub(crate) fn root(table: &'a Table, environment: &'a Environment) -> Self {
        Self::new(String::new(), Origin::Nowhere, Some(table), Purpose::Use(environment))
    }

    /// An empty file, read for the list of its settings.
    pub(crate) fn described(environment: &'a Environment) -> Self {
        Self::new(String::new(), Origin::Nowhere, None, Purpose::Describe(environment))
    }

    /// A setting with a default, which is written as the user would write it.
    pub(crate) fn get<T: Setting>(
        &mut self,
        name: &'static str,
        default: &'static str,
        doc: &'static str,
    ) -> T {
        self.declare::<T>(name, Default::Value(default), doc);
        self.value(name).unwrap_or_else(|| {
            let read = T::read(&Node::of_default(default), self.environment());
            read.unwrap_or_else(|_| panic!("invariant: the default {default} of {name} is a valid value"))
        })
    }

    /// A setting whose default depends on others; `described` tells the reference how.
    pub(crate) fn derived<T: Setting>(
        &mut self,
        name: &'static str,
        default: T,
        described: &'static str,
        doc: &'static str,
    ) -> T {
        self.declare::<T>(name, Default::Described(described), doc);
        self.value(name).unwrap_or(default)
    }

    /// A setting that may be left out.
    pub(crate) fn optional<T: Setting>(&mut self, name: &'static str, doc: &'static str) -> Option<T> {
        self.declare::<T>(name, Default::Absent, doc);
        self.value(name)
    }

    /// A setting that must be written. `None` is a mistake that has been noted.
    pub(crate) fn required<T: Setting>(&mut self, name: &'static str, doc: &'static str) -> Option<T> {
        self.declare::<T>(name, Default::Required, doc);
        self.miss_unless_written(name, &T::kind());
        self.value(name)
    }

    /// A table that is read with its defaults when it is not written.
    pub(crate) fn table<T>(
        &mut self,
        name: &'static str,
        doc: &'static str,
        read: impl FnOnce(&mut Section<'_>) -> T,
    ) -> T {
        self.declare_structure(name, "table", Default::Absent, doc);
        self.read_table(name, read)
    }

    /// A table that may be left out.
    pub(crate) fn optional_table<T>(
        &mut self,
        name: &'static str,
        doc: &'static str,
        read: impl FnOnce(&mut Section<'_>) -> Option<T>,
    ) -> Option<T> {
        if self.entry(name).is_some() || self.is_described() {
            return self.table(name, doc, read);
        }
        self.know(name, |_| true);
        None
    }

    /// A table that must be written.
    pub(crate) fn required_table<T>(
        &mut self,
        name: &'static str,
        doc: &'static str,
        read: impl FnOnce(&mut Section<'_>) -> Option<T>,
    ) -> Option<T> {
        self.miss_unless_written(name, "table");
        self.declare_structure(name, "table", Default::Required, doc);
        if self.has(name) || self.is_described() { self.read_table(name, read) } else { None }
    }

    /// A table that may be left out, or shortened to the text of its key `short`.
    pub(crate) fn shortened_table<T>(
        &mut self,
        name: &'static str,
        short: &'static str,
        doc: &'static str,
        read: impl FnOnce(&mut Section<'_>) -> Option<T>,
    ) -> Option<T> {
        let Some(entry) = self.entry(name).filter(|entry| matches!(entry.node.value, Value::Text(_))) else {
            return self.optional_table(name, doc, read);
        };
        self.know(name, |_| true);
        let only = Entry { key: short.to_owned(), place: entry.place.clone(), node: entry.node.clone() };
        let table = Table { entries: vec![only] };
        let mut child = Section::new(self.path_of(name), entry.place.clone(), Some(&table), self.purpose);
        let value = read(&mut child);
        self.absorb(child.finish());
        value
    }

    /// Explains the section itself in the reference.
    pub(crate) fn about(&mut self, doc: &'static str) {
        let path = self.path.clone();
        self.findings.declarations.push(Declaration {
            path,
            kind: String::new(),
            default: Default::Absent,
            doc,
        });
    }

    /// Refuses a value for a reason that its type cannot know.
    pub(crate) fn refuse(&mut self, name: &str, message: impl Into<String>) {
        let origin = self.entry(name).map_or_else(|| self.place.clone(), |entry| entry.node.origin.clone());
        self.note(self.path_of(name), origin, message.into(), Cause::Wrong);
    }

    /// Refuses the section as a whole.
    pub(crate) fn refuse_whole(&mut self, message: impl Into<String>) {
        self.note(self.path.clone(), self.place.clone(), message.into(), Cause::Wrong);
    }

    /// Refuses none, and more than one, of several ways to say a thing.
    pub(crate) fn exactly_one(&mut self, ways: &[&str]) {
        let written: Vec<_> = ways.iter().copied().filter(|way| self.has(way)).collect();
        match written.as_slice() {
            // A table that was misread has been refused already.
            [] if self.table.is_none() => {}
            [] => self.refuse_whole(format!(
                "found none of {}, expected one",
                alternatives(ways.iter().copied(), "`")
            )),
            [_] => {}
            [first, second, ..] => {
                self.refuse(second, format!("found both `{first}` and `{second}`, expected one of them"));
            }
        }
    }

    /// Whether a key is written at all, rightly or wrongly.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.entry(name).is_some()
    }

    /// Where this section stands, for people: `outbox.orders`.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Whether settings are only being listed: nothing written can then be judged.
    pub(crate) fn is_described(&self) -> bool {
        matches!(self.purpose, Purpose::Describe(_))
    }

    /// Ends the reading: keys that nobody asked for are mistakes.
    pub(crate) fn finish(mut self) -> Findings {
        if !self.takes_any_key {
            for entry in self.entries() {
                if self.known.iter().all(|known| known.name != entry.key) {
                    self.note_unknown(entry);
                }
            }
        }
        self.findings
    }

    fn new(path: String, place: Origin, table: Option<&'a Table>, purpose: Purpose<'a>) -> Self {
        let known = Vec::new();
        Self { path, place, table, purpose, known, takes_any_key: false, findings: Findings::default() }
    }

    fn read_table<T>(&mut self, name: &str, read: impl FnOnce(&mut Section<'_>) -> T) -> T {
        let mut child = self.child(name, self.entry(name));
        let value = read(&mut child);
        self.absorb(child.finish());
        value
    }

    fn child(&mut self, name: &str, entry: Option<&'a Entry>) -> Section<'a> {
        let path = self.path_of(name);
        let table = entry.and_then(|entry| self.table_of(&path, &entry.node));
        let place = entry.map_or_else(|| self.place.clone(), |entry| entry.place.clone());
        self.child_at(path, place, table)
    }

    fn child_at(&self, path: String, place: Origin, table: Option<&'a Table>) -> Section<'a> {
        Section::new(path, place, table, self.purpose)
    }

    fn table_of(&mut self, path: &str, node: &'a Node) -> Option<&'a Table> {
        if let Value::Table(table) = &node.value {
            return Some(table);
        }
        let message = format!("found {}, expected a table", node.value.kind());
        self.hide(node);
        self.note(path.to_owned(), node.origin.clone(), message, Cause::Wrong);
        None
    }

    fn value<T: Setting>(&mut self, name: &str) -> Option<T> {
        self.entry(name).and_then(|entry| self.read(entry))
    }

    fn read<T: Setting>(&mut self, entry: &Entry) -> Option<T> {
        let sensitive = T::is_sensitive(&entry.node);
        if sensitive {
            self.hide(&entry.node);
        }
        let wrong = match T::read(&entry.node, self.environment()) {
            Ok(value) => return Some(value),
            Err(wrong) => wrong,
        };
        let found = if sensitive { entry.node.value.kind().to_owned() } else { entry.node.shown() };
        let message = match wrong {
            Wrong::Expected(what) => format!("found {found}, expected {what}"),
            Wrong::Because(why) => why,
        };
        self.note(self.path_of(&entry.key), entry.node.origin.clone(), message, Cause::Wrong);
        None
    }

    fn declare<T: Setting>(&mut self, name: &'static str, default: Default, doc: &'static str) {
        self.know(name, T::is_sensitive);
        self.describe(name, T::kind(), default, doc);
    }

    fn declare_structure(&mut self, name: &'static str, kind: &str, default: Default, doc: &'static str) {
        self.know(name, |_| true);
        self.describe(name, kind.to_owned(), default, doc);
    }

    fn know(&mut self, name: &'static str, is_sensitive: fn(&Node) -> bool) {
        self.known.push(Known { name, is_sensitive });
    }

    fn describe(&mut self, name: &str, kind: String, default: Default, doc: &'static str) {
        let path = self.path_of(name);
        self.findings.declarations.push(Declaration { path, kind, default, doc });
    }

    fn miss_unless_written(&mut self, name: &str, kind: &str) {
        if self.entry(name).is_none() {
            let message = format!("missing; it has no default, so write one ({kind})");
            self.note(self.path_of(name), self.place.clone(), message, Cause::Missing);
        }
    }

    fn note_unknown(&mut self, entry: &Entry) {
        let names = self.known.iter().map(|known| known.name);
        let meant = nearest(&entry.key, names.clone());
        let advice = match meant {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("expected {}", alternatives(names, "`")),
        };
        // Nobody knows what a stray key holds: it may well be a secret.
        let known = self.known.iter().find(|known| Some(known.name) == meant);
        if known.is_none_or(|known| (known.is_sensitive)(&entry.node)) {
            self.hide(&entry.node);
        }
        let what = if self.path.is_empty() { "section" } else { "key" };
        let message = format!("unknown {what} `{}`: {advice}", entry.key.escape_debug());
        self.note(self.path_of(&entry.key), entry.place.clone(), message, Cause::Wrong);
    }

    fn note(&mut self, path: String, origin: Origin, message: String, cause: Cause) {
        self.findings.mistakes.push(Finding { path, origin, message, cause });
    }

    /// Keeps the texts of a node out of every line that a message shows. The name of a variable may stay.
    fn hide(&mut self, node: &Node) {
        match (&node.value, &node.origin) {
            (Value::Text(text), Origin::File(bytes)) if !text.starts_with("env:") => {
                self.findings.sensitive.push(bytes.clone());
            }
            (Value::List(nodes), _) => nodes.iter().for_each(|node| self.hide(node)),
            (Value::Table(table), _) => table.entries.iter().for_each(|entry| self.hide(&entry.node)),
            _ => {}
        }
    }

    fn absorb(&mut self, child: Findings) {
        self.findings.mistakes.extend(child.mistakes);
        self.findings.declarations.extend(child.declarations);
        self.findings.sensitive.extend(child.sensitive);
    }

    fn entry(&self, name: &str) -> Option<&'a Entry> {
        self.table.and_then(|table| table.entry(name))
    }

    fn entries(&self) -> &'a [Entry] {
        self.table.map_or(&[], |table| &table.entries)
    }

    fn environment(&self) -> &'a Environment {
        match self.purpose {
            Purpose::Use(environment) | Purpose::Describe(environment) => environment,
        }
    }

    fn path_of(&self, name: &str) -> String {
        let name = if is_bare(name) { name.to_owned() } else { format!("\"{}\"", name.escape_debug()) };
        if self.path.is_empty() { name } else { format!("{}.{name}", self.path) }
    }
}

fn is_bare(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter))
}
