//! Request bodies: JSON, bounded, with the place of every mistake.

use axum::body::Bytes;
use axum::extract::{FromRequest as _, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use serde::de::{DeserializeOwned, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};
use serde_json::error::Category;
use serde_path_to_error::{Path, Segment};

use crate::Problem;
use crate::expectation::in_words;
use crate::problem::advice;

/// One or many: an object, or an array of them.
pub(crate) async fn many<T: DeserializeOwned>(request: Request) -> Result<Vec<T>, Problem> {
    let bytes = json(request).await?;
    let is_array = bytes.trim_ascii_start().first() == Some(&b'[');
    let objects: Vec<Object<T>> = if is_array { parse(&bytes)? } else { vec![parse(&bytes)?] };
    Ok(objects.into_iter().map(|Object(object)| object).collect())
}

/// One object.
pub(crate) async fn one<T: DeserializeOwned>(request: Request) -> Result<T, Problem> {
    parse(&json(request).await?).map(|Object(object)| object)
}

/// One object; no body at all is an empty one.
pub(crate) async fn one_or_none<T: DeserializeOwned + Default>(request: Request) -> Result<T, Problem> {
    let declared = is_json(request.headers());
    let bytes = read(request).await?;
    match (bytes.is_empty(), declared) {
        (true, _) => Ok(T::default()),
        (false, true) => parse(&bytes).map(|Object(object)| object),
        (false, false) => Err(not_json()),
    }
}

/// A body that says that it is JSON. Browsers cannot send that across origins without asking.
async fn json(request: Request) -> Result<Bytes, Problem> {
    if !is_json(request.headers()) {
        return Err(not_json());
    }
    read(request).await
}

pub(crate) async fn read(request: Request) -> Result<Bytes, Problem> {
    Bytes::from_request(request, &()).await.map_err(|rejection| {
        let status = rejection.status();
        Problem::new(status, advice(status))
    })
}

fn is_json(headers: &HeaderMap) -> bool {
    let media = headers.get(CONTENT_TYPE).and_then(|media| media.to_str().ok()).unwrap_or_default();
    let media = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media == "application/json" || (media.starts_with("application/") && media.ends_with("+json"))
}

fn not_json() -> Problem {
    let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    Problem::new(status, advice(status))
}

/// An object, and nothing else: the fields of a struct could be taken from an array as well, by their order.
#[derive(Debug)]
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(Named(deserializer)).map(Self)
    }
}

/// An object in a field of a body.
pub(crate) fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Object::deserialize(deserializer).map(|Object(object)| object)
}

/// An object in a field of a body, or none.
pub(crate) fn object_or_none<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Option::<Object<T>>::deserialize(deserializer).map(|object| object.map(|Object(object)| object))
}

/// An array of objects in a field of a body, or none.
pub(crate) fn objects_or_none<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let objects = Option::<Vec<Object<T>>>::deserialize(deserializer)?;
    Ok(objects.map(|objects| objects.into_iter().map(|Object(object)| object).collect()))
}

/// Reads a struct by the names of its fields.
struct Named<D>(D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Named<D> {
    type Error = D::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(visitor)
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut deserializer)
        .map_err(|error| wrong(error.path(), error.inner()))?;
    deserializer.end().map_err(|error| invalid(&error))?;
    Ok(value)
}

fn wrong(path: &Path, error: &serde_json::Error) -> Problem {
    match error.classify() {
        Category::Data => misfit(path, error),
        Category::Syntax | Category::Eof | Category::Io => invalid(error),
    }
}

/// It is no JSON at all.
fn invalid(error: &serde_json::Error) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, format!("The body is not valid JSON: {error}."))
}

/// It is JSON, but not what belongs here.
fn misfit(path: &Path, error: &serde_json::Error) -> Problem {
    let (mut item, mut field) = (None, None);
    for segment in path.iter() {
        match segment {
            Segment::Seq { index } if field.is_none() => item = Some(*index),
            Segment::Map { key } if field.is_none() => field = Some(key.clone()),
            _ => {}
        }
    }
    let said = in_words(&error.to_string());
    let problem = match field {
        Some(field) => Problem::field(field, format!("is not accepted: {said}")),
        None => Problem::new(StatusCode::UNPROCESSABLE_ENTITY, format!("Not accepted: {said}.")),
    };
    match item {
        Some(item) => problem.of_item(item),
        None => problem,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::payload::PayloadIn;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Thing {
        #[expect(dead_code, reason = "only read from JSON")]
        name: String,
        #[serde(default)]
        payload: PayloadIn,
    }

    fn problem(json: &str) -> Value {
        serde_json::to_value(parse::<Vec<Object<Thing>>>(json.as_bytes()).unwrap_err()).unwrap()
    }

    #[test]
    fn what_is_not_json_has_its_place() {
        let problem = problem("[{\"name\": \"a\"},\n {\"name\" \"b\"}]");
        assert_eq!(problem["status"], 400);
        assert!(problem["detail"].as_str().unwrap().contains("line 2 column 10"), "{problem}");
    }

    #[test]
    fn what_follows_the_json_is_not_ignored() {
        assert_eq!(problem("[] x")["status"], 400);
        assert_eq!(problem("")["status"], 400);
        assert_eq!(problem("[")["status"], 400);
    }

    #[test]
    fn an_unknown_a_missing_and_a_wrong_field_are_named_with_their_item() {
        for (json, item, field, said) in [
            ("[{\"name\":\"a\"},{\"name\":\"b\",\"nmae\":1}]", 1, Some("nmae"), "unknown field `nmae`"),
            ("[{\"name\":\"a\"},{}]", 1, None, "missing field `name`"),
            ("[{\"name\":5}]", 0, Some("name"), "expected a string"),
        ] {
            let problem = problem(json);
            assert_eq!(
                (problem["status"].clone(), problem["item"].clone()),
                (422.into(), item.into()),
                "{problem}"
            );
            assert_eq!(problem["field"].as_str(), field, "{problem}");
            assert!(problem["detail"].as_str().unwrap().contains(said), "{problem}");
        }
    }

    // A bug: `[null, null]` redrove a letter, as if it were the two fields of the request.
    #[test]
    fn an_array_is_no_object_whatever_is_in_it() {
        assert!(parse::<Object<Thing>>(b"[\"a\", \"b\"]").is_err());
        let problem = problem("[{\"name\": \"a\"}, [\"a\", \"b\"]]");
        assert_eq!((problem["status"].clone(), problem["item"].clone()), (422.into(), 1.into()), "{problem}");
    }

    #[derive(Debug, Deserialize)]
    struct Outer {
        #[serde(deserialize_with = "object")]
        one: Thing,
        #[serde(default, deserialize_with = "object_or_none")]
        other: Option<Thing>,
        #[serde(default, deserialize_with = "objects_or_none")]
        more: Option<Vec<Thing>>,
    }

    #[test]
    fn an_array_in_a_field_is_no_object_either() {
        let outer: Outer = parse(br#"{"one":{"name":"a"},"other":null,"more":[{"name":"b"}]}"#).unwrap();
        assert_eq!((outer.one.payload.0.as_str(), outer.more.map(|more| more.len())), ("", Some(1)));
        assert!(outer.other.is_none());
        for (json, field) in [
            (r#"{"one":["a","b"]}"#, "one"),
            (r#"{"one":{"name":"a"},"other":["a","b"]}"#, "other"),
            (r#"{"one":{"name":"a"},"more":[["a","b"]]}"#, "more"),
        ] {
            let problem = serde_json::to_value(parse::<Outer>(json.as_bytes()).unwrap_err()).unwrap();
            assert_eq!(
                (&problem["status"], problem["field"].as_str()),
                (&422.into(), Some(field)),
                "{problem}"
            );
        }
    }

    #[test]
    fn a_payload_keeps_its_text_on_the_way_through() {
        let things: Vec<Object<Thing>> = parse(b"[{\"name\":\"a\",\"payload\":{ \"n\": 1e400 }}]").unwrap();
        assert_eq!(things[0].0.payload.0, "{ \"n\": 1e400 }");
    }
}
