//! Extraction: JSON in, a value for each column out, or a failure that names the path, the column and the reason.
//!
//! One pass over the text. Only what a column asks for is looked at; the rest is checked to be JSON and
//! skipped. Nothing is rounded, re-ordered or re-formatted: a cell is a slice of what was sent wherever
//! that is possible. A field that appears twice counts as written last, as Postgres and JavaScript do.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::column::{Cell, Column, Kind, Presence, parse_millis, parse_time, shortened};
use crate::failure::Failure;

/// Takes the values of these columns out of JSON.
#[derive(Debug, Clone)]
pub struct Extractor {
    columns: Vec<Column>,
    tree: Tree,
}

/// What is wanted of one value: itself, for these columns, and fields of it.
#[derive(Debug, Clone, Default)]
struct Tree {
    columns: Vec<usize>,
    fields: Vec<(String, Tree)>,
}

impl Extractor {
    /// An extractor for these columns.
    #[must_use]
    pub fn new(columns: Vec<Column>) -> Self {
        let mut tree = Tree::default();
        for (index, column) in columns.iter().enumerate() {
            tree.want(column.path.fields(), index);
        }
        Self { columns, tree }
    }

    /// The columns.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// A value for each column, in their order.
    ///
    /// # Errors
    /// A malformed failure that names the path, the column and the reason.
    pub fn extract<'a>(&self, text: &'a str) -> Result<Vec<Cell<'a>>, Failure> {
        let found = self.find(text)?;
        self.columns.iter().zip(found).map(|(column, value)| cell(column, value)).collect()
    }

    /// The text of each column's value, as it is written.
    fn find<'a>(&self, text: &'a str) -> Result<Vec<Option<&'a str>>, Failure> {
        let mut found = vec![None; self.columns.len()];
        let mut reader = serde_json::Deserializer::from_str(text);
        let read = Finder { tree: &self.tree, whole: Some(text), found: &mut found }.deserialize(&mut reader);
        match read.and_then(|()| reader.end()) {
            Ok(()) => Ok(found),
            Err(error) => Err(Failure::malformed("NotJson", format!("$ is not JSON: {error}"))),
        }
    }
}

impl Tree {
    fn want(&mut self, fields: &[String], column: usize) {
        let Some((first, rest)) = fields.split_first() else {
            self.columns.push(column);
            return;
        };
        let known = self.fields.iter().position(|(name, _)| name == first);
        let at = known.unwrap_or_else(|| {
            self.fields.push((first.clone(), Self::default()));
            self.fields.len() - 1
        });
        self.fields[at].1.want(rest, column);
    }
}

/// Reads one value, and notes the text of whatever is wanted of it.
struct Finder<'t, 'f, 'de> {
    tree: &'t Tree,
    /// The text of this value, where it is known beforehand.
    whole: Option<&'de str>,
    found: &'f mut Vec<Option<&'de str>>,
}

impl<'de> DeserializeSeed<'de> for Finder<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        if let Some(whole) = self.whole {
            for column in &self.tree.columns {
                self.found[*column] = Some(whole.trim());
            }
            return reader.deserialize_any(self);
        }
        if self.tree.columns.is_empty() {
            return reader.deserialize_any(self);
        }
        let raw = <&RawValue as serde::Deserialize>::deserialize(reader)?;
        for column in &self.tree.columns {
            self.found[*column] = Some(raw.get());
        }
        if self.tree.fields.is_empty() {
            return Ok(());
        }
        // Both the value and a field of it are wanted: a second, shorter pass over it alone.
        let mut inner = serde_json::Deserializer::from_str(raw.get());
        inner.deserialize_any(self).map_err(serde::de::Error::custom)
    }
}

impl<'de> Visitor<'de> for Finder<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(field) = map.next_key_seed(Field { tree: self.tree })? {
            let Some(index) = field else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let tree = &self.tree.fields[index].1;
            forget(tree, self.found);
            map.next_value_seed(Finder { tree, whole: None, found: &mut *self.found })?;
        }
        Ok(())
    }

    // No object: none of the wanted fields is there.
    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Takes back what an earlier field of the same name said.
fn forget(tree: &Tree, found: &mut [Option<&str>]) {
    for column in &tree.columns {
        found[*column] = None;
    }
    for (_, child) in &tree.fields {
        forget(child, found);
    }
}

/// The name of a field, as its place among the wanted ones.
struct Field<'t> {
    tree: &'t Tree,
}

impl<'de> DeserializeSeed<'de> for Field<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Option<usize>, D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for Field<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E>(self, name: &str) -> Result<Option<usize>, E> {
        Ok(self.tree.fields.iter().position(|(wanted, _)| wanted == name))
    }
}

fn cell<'a>(column: &Column, value: Option<&'a str>) -> Result<Cell<'a>, Failure> {
    let Some(text) = value.filter(|text| *text != "null") else {
        return match column.presence {
            Presence::Optional => Ok(Cell::Null),
            Presence::Required => Err(missing(column, value)),
        };
    };
    let wrong = || mismatch(column, text);
    match column.kind {
        Kind::Json => Ok(Cell::Json(text)),
        Kind::Any => any(column, text),
        Kind::Text => match any(column, text)? {
            Cell::Json(json) => Ok(Cell::Text(Cow::Borrowed(json))),
            Cell::Bool(_) | Cell::Number(_) => Ok(Cell::Text(Cow::Borrowed(text))),
            cell => Ok(cell),
        },
        Kind::Integer => integer(&scalar(column, text)?).ok_or_else(wrong),
        Kind::Number => number(scalar(column, text)?).ok_or_else(wrong),
        Kind::Boolean => match scalar(column, text)?.as_ref() {
            "true" => Ok(Cell::Bool(true)),
            "false" => Ok(Cell::Bool(false)),
            _ => Err(wrong()),
        },
        Kind::Timestamp if text.starts_with('"') => {
            parse_time(&unescaped(column, text)?).map(Cell::Time).ok_or_else(wrong)
        }
        Kind::Timestamp => parse_millis(text).map(Cell::Time).ok_or_else(wrong),
    }
}

/// A value as it comes: texts unescaped, everything else as it is written.
fn any<'a>(column: &Column, text: &'a str) -> Result<Cell<'a>, Failure> {
    match text.as_bytes().first() {
        Some(b'"') => unescaped(column, text).map(Cell::Text),
        Some(b'{' | b'[') => Ok(Cell::Json(text)),
        Some(b't') => Ok(Cell::Bool(true)),
        Some(b'f') => Ok(Cell::Bool(false)),
        _ => Ok(Cell::Number(Cow::Borrowed(text))),
    }
}

/// The text of a value: without its quotes where it has some.
fn scalar<'a>(column: &Column, text: &'a str) -> Result<Cow<'a, str>, Failure> {
    if text.starts_with('"') { unescaped(column, text) } else { Ok(Cow::Borrowed(text)) }
}

fn unescaped<'a>(column: &Column, text: &'a str) -> Result<Cow<'a, str>, Failure> {
    let inside = &text[1..text.len() - 1];
    if !inside.contains('\\') {
        return Ok(Cow::Borrowed(inside));
    }
    let Column { path, name, .. } = column;
    let owned: String = serde_json::from_str(text).map_err(|error| {
        Failure::malformed("NotText", format!("{path} is not Unicode text, for the column {name}: {error}"))
    })?;
    match owned.find('\0') {
        None => Ok(Cow::Owned(owned)),
        Some(at) => Err(Failure::malformed(
            "NulInText",
            format!("{path} has a NUL at byte {at}: the column {name} cannot keep it"),
        )),
    }
}

fn integer<'a>(text: &str) -> Option<Cell<'a>> {
    // 1e3 and 1.0 are whole numbers, too, but not ones that a database reads as such.
    text.parse::<i64>().ok().map(|number| Cell::Number(Cow::Owned(number.to_string())))
}

fn number(text: Cow<'_, str>) -> Option<Cell<'_>> {
    is_number(&text).then_some(Cell::Number(text))
}

/// Whether a text is a number as JSON has it, of any size.
#[must_use]
pub fn is_number(text: &str) -> bool {
    // A number that no `f64` holds is a number all the same.
    text.strip_prefix('-').unwrap_or(text).starts_with(|first: char| first.is_ascii_digit())
        && serde_json::from_str::<&RawValue>(text).is_ok_and(|value| value.get().len() == text.len())
}

fn missing(column: &Column, value: Option<&str>) -> Failure {
    let how = if value.is_some() { "is null" } else { "is missing" };
    let Column { path, name, .. } = column;
    Failure::malformed("MissingField", format!("{path} {how}: the column {name} requires it"))
}

fn mismatch(column: &Column, text: &str) -> Failure {
    let expected = match column.kind {
        Kind::Integer => "a whole number of 64 bits",
        Kind::Number => "a number",
        Kind::Boolean => "true or false",
        Kind::Timestamp => "a time as RFC 3339 text, or milliseconds since 1970",
        Kind::Any | Kind::Text | Kind::Json => column.kind.name(),
    };
    let (Column { path, name, .. }, shown) = (column, shortened(text));
    Failure::malformed("WrongType", format!("{path} is {shown}, expected {expected} for the column {name}"))
}

#[cfg(test)]
mod tests;
