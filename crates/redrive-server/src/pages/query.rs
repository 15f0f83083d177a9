//! The filter bar: `type:OrderCreated code:23505 since:1h "free text"`.
//!
//! ```text
//! query     = part { blank part }
//! part      = name ":" value | text
//! value     = word | quoted
//! text      = word | quoted
//! quoted    = '"' … '"'        with \" and \\ inside
//! ```
//! A word that looks like a qualifier and is none is a mistake rather than text, so that a slip of the pen
//! does not silently find everything; in quotes it is text. Bare words are one text, with a blank between.

use std::fmt;
use std::str::FromStr as _;

use jiff::Timestamp;
use jiff::civil::Date;
use redrive_core::dead_letter::{Filter, Status};
use redrive_core::fingerprint::Fingerprint;

use crate::moment::Moment;

/// Every qualifier, an example of its value, and what it means.
pub(super) const QUALIFIERS: [(&str, &str, &str); 9] = [
    ("pipeline", "orders", "letters of this pipeline"),
    ("status", "open", "open, retrying, redriven, resolved or failed"),
    ("type", "OrderCreated", "events of this type"),
    ("key", "42", "events with this key"),
    ("class", "transient", "transient, throttled, permanent, malformed, unhandled or unclassified"),
    ("code", "23505", "failures with this code: sqlstate:23505, http:503, or just the number"),
    ("group", "3a9ef9f3946c14dc", "letters of one group"),
    ("since", "1h", "failed in the last hour, or at or after a time such as 2026-11-16T02:00:00Z"),
    ("until", "15m", "failed before that"),
];

const CLASSES: [&str; 6] = ["transient", "throttled", "permanent", "malformed", "unhandled", "unclassified"];

/// What is wrong with a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mistake(String);

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn mistake<T>(text: impl Into<String>) -> Result<T, Mistake> {
    Err(Mistake(text.into()))
}

/// Reads a query as of now.
pub(super) fn parse(text: &str, now: Timestamp) -> Result<Filter, Mistake> {
    let mut filter = Filter::default();
    let mut words: Vec<String> = Vec::new();
    let mut seen: Vec<&'static str> = Vec::new();
    for part in parts(text)? {
        match part.name {
            None => words.push(part.value),
            Some(name) => {
                let name = qualifier(&name, &part.value)?;
                if seen.contains(&name) {
                    return mistake(format!(
                        "{name}: is there twice; a letter has only one, so leave one out."
                    ));
                }
                seen.push(name);
                set(&mut filter, name, part.value, now)?;
            }
        }
    }
    filter.text = Some(words.join(" ")).filter(|text| !text.trim().is_empty());
    Ok(filter)
}

/// The query that means one value of a qualifier.
pub(super) fn qualified(name: &str, value: &str) -> String {
    let plain = !value.is_empty() && !value.contains(|c: char| c.is_whitespace() || c == '"' || c == '\\');
    if plain {
        return format!("{name}:{value}");
    }
    format!("{name}:{}", quoted(value))
}

/// The same query with this value of a qualifier in place of any other; without the rest of it if that is a mistake.
pub(super) fn with(text: &str, name: &str, value: &str) -> String {
    let others = parts(text).unwrap_or_default().into_iter();
    let others = others.filter(|part| part.name.as_deref() != Some(name)).map(|part| match part.name {
        Some(name) => qualified(&name, &part.value),
        None => quoted(&part.value),
    });
    others.chain([qualified(name, value)]).collect::<Vec<_>>().join(" ")
}

/// The query that means this filter.
pub(super) fn of(filter: &Filter) -> String {
    let time = |time: Option<Timestamp>| time.map(|time| time.to_string());
    let parts = [
        ("pipeline", filter.pipeline.clone()),
        ("status", filter.status.map(|status| status.name().to_owned())),
        ("type", filter.event_type.clone()),
        ("key", filter.key.clone()),
        ("class", filter.class.clone()),
        ("code", filter.code.clone()),
        ("group", filter.group.map(|group| group.to_string())),
        ("since", time(filter.since)),
        ("until", time(filter.until)),
    ];
    let set = parts.into_iter().filter_map(|(name, value)| Some(qualified(name, &value?)));
    let text = filter.text.iter().map(|text| quoted(text));
    set.chain(text).collect::<Vec<_>>().join(" ")
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[derive(Debug, PartialEq, Eq)]
struct Part {
    name: Option<String>,
    value: String,
}

fn parts(text: &str) -> Result<Vec<Part>, Mistake> {
    let mut parts = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (part, after) = part(rest)?;
        parts.push(part);
        rest = after.trim_start();
    }
    Ok(parts)
}

fn part(text: &str) -> Result<(Part, &str), Mistake> {
    let end = text.find(|c: char| c == ':' || c == '"' || c.is_whitespace()).unwrap_or(text.len());
    let is_name = end > 0 && text[end..].starts_with(':');
    if !is_name {
        let (value, after) = value(text)?;
        return Ok((Part { name: None, value }, after));
    }
    let (name, after) = (&text[..end], &text[end + 1..]);
    let (value, after) = value(after)?;
    Ok((Part { name: Some(name.to_owned()), value }, after))
}

/// A word, or what is in quotes.
fn value(text: &str) -> Result<(String, &str), Mistake> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        return Ok((text[..end].to_owned(), &text[end..]));
    };
    let mut value = String::new();
    let mut letters = quoted.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Ok((value, &quoted[at + 1..])),
            '\\' => match letters.next() {
                Some((_, escaped @ ('"' | '\\'))) => value.push(escaped),
                Some((_, other)) => value.extend(['\\', other]),
                None => break,
            },
            _ => value.push(letter),
        }
    }
    mistake(format!(
        "The quotes before {:?} are not closed: add a \" at the end of the value.",
        first_of(quoted)
    ))
}

fn first_of(text: &str) -> String {
    text.chars().take(20).collect()
}

fn qualifier(name: &str, value: &str) -> Result<&'static str, Mistake> {
    let lower = name.to_lowercase();
    if let Some((known, ..)) = QUALIFIERS.iter().find(|(known, ..)| *known == lower) {
        return Ok(known);
    }
    let near = QUALIFIERS
        .iter()
        .map(|(known, ..)| *known)
        .find(|known| strsim::damerau_levenshtein(known, &lower) <= 2);
    let name = first_of(name);
    let hint = match near {
        Some(near) => format!("did you mean {near}:?"),
        None => format!("there are {}.", QUALIFIERS.map(|(known, ..)| known).join(", ")),
    };
    let text = first_of(&format!("{name}:{value}"));
    mistake(format!(
        "{name}: is no qualifier; {hint} To search for it as text, put it in quotes: \"{text}\"."
    ))
}

fn set(filter: &mut Filter, name: &str, value: String, now: Timestamp) -> Result<(), Mistake> {
    // An empty key is a key; an empty anything else is a slip.
    if value.is_empty() && name != "key" && name != "type" {
        return mistake(format!("{name}: has no value after the colon (and no blank may be there)."));
    }
    match name {
        "pipeline" => filter.pipeline = Some(value),
        "status" => filter.status = Some(status(&value)?),
        "type" => filter.event_type = Some(value),
        "key" => filter.key = Some(value),
        "class" => filter.class = Some(class(&value)?),
        "code" => filter.code = Some(value),
        "group" => {
            filter.group = Some(Fingerprint::from_str(&value).map_err(|error| Mistake(error.to_string()))?);
        }
        "since" => filter.since = Some(time(name, &value, now)?),
        _ => filter.until = Some(time(name, &value, now)?),
    }
    Ok(())
}

fn status(value: &str) -> Result<Status, Mistake> {
    let lower = value.to_lowercase();
    let found = Status::ALL.into_iter().find(|status| status.name() == lower);
    let names = Status::ALL.map(Status::name).join(", ");
    found.ok_or_else(|| Mistake(format!("{:?} is no status: there are {names}.", first_of(value))))
}

fn class(value: &str) -> Result<String, Mistake> {
    let lower = value.to_lowercase();
    if CLASSES.contains(&lower.as_str()) {
        return Ok(lower);
    }
    mistake(format!("{:?} is no class of failures: there are {}.", first_of(value), CLASSES.join(", ")))
}

/// So long ago, a point in time, or the beginning of a day.
fn time(name: &str, value: &str, now: Timestamp) -> Result<Timestamp, Mistake> {
    let day = || Moment::parse(&format!("{}T00:00:00Z", value.parse::<Date>().ok()?), now);
    let found = Moment::parse(value, now).or_else(day).map(|Moment(at)| at);
    let value = first_of(value);
    found.ok_or_else(|| {
        Mistake(format!("{name}:{value} is no time: write 15m, 1h, 7d, 2026-11-16 or 2026-11-16T02:00:00Z."))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::*;

    fn now() -> Timestamp {
        "2026-11-16T12:00:00Z".parse().unwrap()
    }

    fn read(text: &str) -> Filter {
        parse(text, now()).unwrap()
    }

    #[track_caller]
    fn refused(text: &str, said: &str) {
        let mistake = parse(text, now()).unwrap_err().to_string();
        assert!(mistake.contains(said), "{said:?} in {mistake:?}");
    }

    #[test]
    fn qualifiers_and_text_are_told_apart() {
        let filter = read(
            r#"type:OrderCreated code:sqlstate:23505 Pipeline:orders no route "to host" key:"a \"b\" \\""#,
        );
        assert_eq!(filter.event_type.as_deref(), Some("OrderCreated"));
        assert_eq!(filter.code.as_deref(), Some("sqlstate:23505"));
        assert_eq!(filter.pipeline.as_deref(), Some("orders"));
        assert_eq!(filter.text.as_deref(), Some("no route to host"));
        assert_eq!(filter.key.as_deref(), Some(r#"a "b" \"#));
        assert!(read("  ").is_empty());
        assert_eq!(read("status:FAILED class:Transient").status, Some(Status::Failed));
        assert_eq!(read("\"type:x\"").text.as_deref(), Some("type:x"));
        assert_eq!(read("key:\"\"").key.as_deref(), Some(""));
    }

    #[test]
    fn times_are_relative_or_not() {
        assert_eq!(read("since:1h").since, Some("2026-11-16T11:00:00Z".parse().unwrap()));
        assert_eq!(read("since:2026-11-15").since, Some("2026-11-15T00:00:00Z".parse().unwrap()));
        let filter = read("until:2026-11-15T10:30:00+02:00");
        assert_eq!(filter.until, Some("2026-11-15T08:30:00Z".parse().unwrap()));
    }

    #[test]
    fn mistakes_say_what_to_do() {
        refused("typ:x", "did you mean type:?");
        refused("http://x", "put it in quotes: \"http://x\"");
        refused("zebra:1", "there are pipeline, status");
        refused("type:a type:b", "type: is there twice");
        refused("status:dead", "\"dead\" is no status: there are open");
        refused("class:bad", "there are transient");
        refused("since:yesterday", "write 15m, 1h");
        refused("since:99999999999999999999d", "is no time");
        refused("since:-009999-01-01", "is no time");
        refused("until:9999-12-31T00:00:00Z", "is no time");
        refused("group:zz", "is not a fingerprint");
        refused("code: 5", "code: has no value");
        refused("key:\"abc", "are not closed");
    }

    /// Quotes with nothing in them were a filter, and every letter that waits matched it.
    #[test]
    fn a_blank_text_chooses_nothing() {
        for blank in ["\"\"", "\" \"", "\"\" \"\""] {
            assert_eq!(read(blank), Filter::default(), "{blank}");
        }
    }

    proptest! {
        #[test]
        fn any_value_can_be_asked_for(value in ".{0,30}") {
            prop_assert_eq!(read(&qualified("key", &value)).key, Some(value));
        }

        #[test]
        fn a_filter_survives_its_query(key in ".{0,9}", text in ".{0,9}", hours in 0..9_000_i64, bits: u64) {
            let filter = Filter {
                pipeline: Some("orders".to_owned()),
                status: Some(Status::Failed),
                key: Some(key),
                class: Some("transient".to_owned()),
                group: Some(Fingerprint::from_bits(bits)),
                text: Some(text).filter(|text| !text.trim().is_empty()),
                until: Timestamp::from_microsecond(hours * 3_600_000_000 + 1).ok(),
                ..Filter::default()
            };
            prop_assert_eq!(read(&of(&filter)), filter);
        }

        #[test]
        fn no_text_breaks_the_parser(text in ".{0,60}") {
            let _ = parse(&text, now());
        }
    }
}
