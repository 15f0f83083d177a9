//! The raw configuration: a tree of values in which each one still knows where it was written.
//!
//! TOML and environment variables meet here, so that the readers of the sections see one kind of tree
//! and every mistake they find can be shown at its place. A file with syntax errors still gives the
//! tree of what could be recovered: one report then names the broken line and the wrong values.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::environment::Environment;

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// At these bytes of the file.
    File(Range<usize>),
    /// In this environment variable.
    Variable(String),
    /// Nowhere: a default, or something that is missing altogether.
    Nowhere,
}

/// One value with its place.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

/// What can be written in the file or in a variable.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Text(String),
    Integer(i128),
    Float(f64),
    Boolean(bool),
    Datetime(String),
    List(Vec<Node>),
    Table(Table),
}

/// Keys and values, in the order of the file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    pub(crate) entries: Vec<Entry>,
}

/// A key with its value.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) place: Origin,
    pub(crate) node: Node,
}

/// A sentence about a place, before anyone has looked up its line.
#[derive(Debug, Clone)]
pub(crate) struct Remark {
    pub(crate) origin: Origin,
    pub(crate) message: String,
}

/// The file and the variables as one tree, and what was wrong with their form.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) root: Table,
    pub(crate) syntax: Vec<Remark>,
    pub(crate) misplaced: Vec<Remark>,
}

impl Document {
    /// Reads TOML and lays the overrides of the environment over it.
    pub(crate) fn parse(source: &str, environment: &Environment) -> Self {
        let (root, errors) = DeTable::parse_recoverable(source);
        let mut document = Self {
            root: table(root.get_ref()),
            syntax: errors.iter().map(syntax_remark).collect(),
            misplaced: Vec::new(),
        };
        for (variable, segments, text) in environment.overrides() {
            let node = override_node(variable, text);
            if let Err(remark) = document.root.set(&segments, node) {
                document.misplaced.push(remark);
            }
        }
        document
    }
}

impl Table {
    /// The entry of exactly this key.
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    fn set(&mut self, segments: &[&str], node: Node) -> Result<(), Remark> {
        let Some((segment, rest)) = segments.split_first() else { return Ok(()) };
        let position = self.position_of(segment, &node.origin);
        let entry = &mut self.entries[position];
        if rest.is_empty() {
            entry.place = node.origin.clone();
            entry.node = node;
            return Ok(());
        }
        match &mut entry.node.value {
            Value::Table(table) => table.set(rest, node),
            other => Err(Remark {
                message: format!(
                    "found {} at `{}`, where this variable expects a table; set the whole value instead",
                    other.kind(),
                    entry.key
                ),
                origin: node.origin,
            }),
        }
    }

    /// Finds the key that a variable's segment means, or makes room for it.
    fn position_of(&mut self, segment: &str, origin: &Origin) -> usize {
        if let Some(position) = self.entries.iter().position(|entry| same_key(&entry.key, segment)) {
            return position;
        }
        let table = Node { value: Value::Table(Self::default()), origin: origin.clone() };
        self.entries.push(Entry { key: written_key(segment), place: origin.clone(), node: table });
        self.entries.len() - 1
    }
}

impl Value {
    /// What a person calls this kind of value.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Integer(_) => "a number",
            Self::Float(_) => "a fractional number",
            Self::Boolean(_) => "true or false",
            Self::Datetime(_) => "a date",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

impl Node {
    /// A default, which is read exactly as if someone had written it.
    pub(crate) fn of_default(text: &str) -> Self {
        Self { value: text_or_structure(text, &Origin::Nowhere), origin: Origin::Nowhere }
    }

    /// Whether a number may come as text: only the file has types of its own.
    pub(crate) fn is_untyped(&self) -> bool {
        !matches!(self.origin, Origin::File(_))
    }

    /// The value as a message shows it: short, and harmless on a terminal.
    pub(crate) fn shown(&self) -> String {
        match &self.value {
            Value::Text(text) => format!("\"{}\"", shortened(text)),
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            Value::Boolean(flag) => flag.to_string(),
            Value::Datetime(date) => date.clone(),
            Value::List(_) | Value::Table(_) => self.value.kind().to_owned(),
        }
    }
}

const LONGEST_SHOWN: usize = 60;

fn shortened(text: &str) -> String {
    let cut: String = text.chars().take(LONGEST_SHOWN).collect();
    let dots = if cut.len() < text.len() { "…" } else { "" };
    format!("{}{dots}", cut.escape_debug())
}

/// `BATCH_SIZE`, `batch-size` and `Batch_Size` are one key.
fn same_key(key: &str, segment: &str) -> bool {
    key.len() == segment.len()
        && key.bytes().zip(segment.bytes()).all(|(a, b)| {
            let dash = |byte: u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
            dash(a) == dash(b)
        })
}

/// A segment that is all capitals names a kebab-case key; any other one is taken as it is written.
fn written_key(segment: &str) -> String {
    if segment.chars().any(|letter| letter.is_ascii_lowercase()) {
        segment.to_owned()
    } else {
        segment.to_ascii_lowercase().replace('_', "-")
    }
}

fn override_node(variable: &str, text: &str) -> Node {
    let origin = Origin::Variable(variable.to_owned());
    Node { value: text_or_structure(text, &origin), origin }
}

/// A list or a table can be given in one variable, in TOML's own spelling; anything else is text.
fn text_or_structure(text: &str, origin: &Origin) -> Value {
    if !text.starts_with(['[', '{']) {
        return Value::Text(text.to_owned());
    }
    match DeValue::parse(text) {
        Ok(parsed) => relocated(value(parsed.get_ref()), origin),
        Err(_) => Value::Text(text.to_owned()),
    }
}

/// Replaces places inside a variable's text by the variable itself.
fn relocated(value: Value, origin: &Origin) -> Value {
    let moved = |node: Node| Node { value: relocated(node.value, origin), origin: origin.clone() };
    match value {
        Value::List(nodes) => Value::List(nodes.into_iter().map(moved).collect()),
        Value::Table(table) => {
            let entries = table.entries.into_iter();
            let entries =
                entries.map(|entry| Entry { place: origin.clone(), node: moved(entry.node), key: entry.key });
            Value::Table(Table { entries: entries.collect() })
        }
        scalar => scalar,
    }
}

fn syntax_remark(error: &toml::de::Error) -> Remark {
    let origin = error.span().map_or(Origin::Nowhere, Origin::File);
    Remark { origin, message: error.message().to_owned() }
}

fn table(raw: &DeTable<'_>) -> Table {
    let mut entries: Vec<_> = raw.iter().map(|(key, value)| (key.span().start, entry(key, value))).collect();
    entries.sort_by_key(|(start, _)| *start);
    Table { entries: entries.into_iter().map(|(_, entry)| entry).collect() }
}

fn entry(key: &Spanned<std::borrow::Cow<'_, str>>, raw: &Spanned<DeValue<'_>>) -> Entry {
    Entry { key: key.get_ref().to_string(), place: Origin::File(key.span()), node: node(raw) }
}

fn node(raw: &Spanned<DeValue<'_>>) -> Node {
    Node { value: value(raw.get_ref()), origin: Origin::File(raw.span()) }
}

fn value(raw: &DeValue<'_>) -> Value {
    match raw {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => {
            Value::Integer(i128::from_str_radix(number.as_str(), number.radix()).unwrap_or(i128::MAX))
        }
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(flag) => Value::Boolean(*flag),
        DeValue::Datetime(date) => Value::Datetime(date.to_string()),
        DeValue::Array(nodes) => Value::List(nodes.iter().map(node).collect()),
        DeValue::Table(raw) => Value::Table(table(raw)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(source: &str, variables: &[(&str, &str)]) -> Document {
        Document::parse(source, &Environment::of(variables.iter().copied()))
    }

    fn text_at<'a>(document: &'a Document, path: &[&str]) -> Option<&'a str> {
        let (last, sections) = path.split_last()?;
        let mut table = &document.root;
        for section in sections {
            match &table.entry(section)?.node.value {
                Value::Table(inner) => table = inner,
                _ => return None,
            }
        }
        match &table.entry(last)?.node.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    #[test]
    fn entries_keep_the_order_of_the_file() {
        let document = parse("z = 1\na = 2\nm = 3\n", &[]);
        let keys: Vec<_> = document.root.entries.iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!(keys, ["z", "a", "m"]);
    }

    #[test]
    fn a_variable_replaces_the_value_of_the_file() {
        let document = parse("[server]\nlisten = \"a\"\n", &[("REDRIVE__SERVER__LISTEN", "b")]);
        assert_eq!(text_at(&document, &["server", "listen"]), Some("b"));
    }

    #[test]
    fn a_variable_finds_a_key_whatever_its_case_and_dashes() {
        let source = "[outbox.my_Orders]\nhandlers.OrderCreated = { http = \"a\" }\n";
        let document =
            parse(source, &[("REDRIVE__OUTBOX__MY_ORDERS__HANDLERS__ORDERCREATED__HTTP", "http://b")]);
        let path = ["outbox", "my_Orders", "handlers", "OrderCreated", "http"];
        assert_eq!(text_at(&document, &path), Some("http://b"));
    }

    #[test]
    fn a_variable_makes_sections_that_the_file_lacks() {
        let document = parse("", &[("REDRIVE__JOBS__SEND_MAIL__TIMEOUT", "5s")]);
        assert_eq!(text_at(&document, &["jobs", "send-mail", "timeout"]), Some("5s"));
    }

    #[test]
    fn a_variable_may_hold_a_list_or_an_address_in_brackets() {
        let document =
            parse("", &[("REDRIVE__A", "[\"x\", \"y\"]"), ("REDRIVE__SERVER__LISTEN", "[::1]:7070")]);
        let list = &document.root.entry("a").unwrap().node.value;
        assert!(matches!(list, Value::List(items) if items.len() == 2));
        assert_eq!(text_at(&document, &["server", "listen"]), Some("[::1]:7070"));
    }

    #[test]
    fn a_variable_below_a_plain_value_is_misplaced() {
        let document = parse("[server]\nlisten = \"a\"\n", &[("REDRIVE__SERVER__LISTEN__PORT", "1")]);
        assert_eq!(document.misplaced.len(), 1);
        assert!(document.misplaced[0].message.contains("`listen`"));
    }

    #[test]
    fn several_syntax_errors_are_all_found_and_the_rest_is_recovered() {
        let document = parse("a = \nb = \"ok\"\nc = 5s\n", &[]);
        assert_eq!(document.syntax.len(), 2);
        assert_eq!(text_at(&document, &["b"]), Some("ok"));
    }
}
