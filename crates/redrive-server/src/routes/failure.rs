//! What went wrong, as somebody else reports it: a worker of its job, a service of its event.

use redrive_core::classify::classify;
use redrive_core::event::{MAX_TYPE, required};
use redrive_core::failure::{Class, Code, Failure};

use crate::Problem;

/// What a failure is called whose reporter does not say.
const DEFAULT_KIND: &str = "Reported";

/// The code that was reported, if one was.
pub(super) fn code(reported: Option<&str>) -> Result<Option<Code>, Problem> {
    let Some(text) = reported else { return Ok(None) };
    storable("code", text)?;
    let code = text.parse().map_err(|error| Problem::field("code", format!("is not accepted: {error}")))?;
    Ok(Some(code))
}

/// The class that was reported, else what the code says.
pub(super) fn class(reported: Option<Class>, code: Option<&Code>) -> Class {
    reported.unwrap_or_else(|| code.map_or(Class::Unclassified, classify))
}

/// The failure, if every store can keep it.
pub(super) fn failure(
    class: Class,
    code: Option<Code>,
    kind: Option<String>,
    message: String,
) -> Result<Failure, Problem> {
    let kind = kind.unwrap_or_else(|| DEFAULT_KIND.to_owned());
    storable("kind", &kind)?;
    let failure = Failure::new(class, kind, message);
    Ok(match code {
        Some(code) => failure.with_code(code),
        None => failure,
    })
}

fn storable(field: &'static str, text: &str) -> Result<(), Problem> {
    required(field, text, MAX_TYPE).map_err(|refused| Problem::field(field, refused.why))
}
