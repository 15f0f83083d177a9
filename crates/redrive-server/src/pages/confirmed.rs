//! What was confirmed: the form becomes an operation.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use redrive_core::dead_letter::Filter;
use redrive_engine::console::{Action, Canary, Console, Request};

use super::confirm::{action, ids};
use super::failed::Failed;
use super::form::{Form, wrong};
use super::frame::Visitor;
use super::text;
use crate::note;

/// Starts what was confirmed.
pub(super) async fn start(
    visitor: Visitor,
    State(console): State<Arc<Console>>,
    form: Form,
) -> Result<Response, Failed> {
    visitor.must_act()?;
    let request = request(&form)?;
    let operation = console.start(&request, &visitor.operator(), form.get("key")).await?;
    Ok(Redirect::to(&format!("/operations/{}", operation.id)).into_response())
}

/// What a confirmed form asks for.
fn request(form: &Form) -> Result<Request, Failed> {
    let action = action(form.get("action"))?;
    let ids = ids(form)?;
    let filter = match form.get("filter") {
        Some(json) if ids.is_empty() => serde_json::from_str(json)
            .map_err(|error| wrong(format!("The filter of the form cannot be read: {error}.")))?,
        _ => Filter::default(),
    };
    if form.get("everything").is_some() && form.get("sure").is_none() {
        return Err(wrong("This means every letter that waits: tick the box that says so."));
    }
    let note = form.get("note").unwrap_or_default().to_owned();
    note::check(&note)?;
    if action == Action::Resolve && note.is_empty() {
        return Err(wrong("A resolution needs a note that says why the letters are done with."));
    }
    let redrives = action == Action::Redrive;
    let canary =
        if redrives && form.get("canary").is_some() { Some(canary(form.get("steps"))?) } else { None };
    let rate = rate(form.get("rate"))?;
    Ok(Request { ids, rate, canary, note, ..Request::new(action, filter) })
}

fn rate(text: Option<&str>) -> Result<Option<u32>, Failed> {
    let Some(text) = text else { return Ok(None) };
    let rate = text.replace(',', "").parse().map_err(|_| {
        wrong(format!(
            "{:?} is no rate: write a whole number of letters per second, or nothing for no limit.",
            text::line(text, 20)
        ))
    })?;
    Ok(Some(rate))
}

fn canary(steps: Option<&str>) -> Result<Canary, Failed> {
    let Some(steps) = steps else { return Ok(Canary::default()) };
    let numbers = steps.split([',', ' ']).filter(|step| !step.is_empty()).map(str::parse);
    let steps = numbers.collect::<Result<Vec<u32>, _>>().map_err(|_| {
        wrong(format!("{:?} are no steps of a ramp: write numbers such as 1, 5, 20.", text::line(steps, 40)))
    })?;
    Ok(Canary { steps, ..Canary::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(form: &str) -> Result<Request, Failed> {
        request(&Form::read(form.as_bytes()))
    }

    #[test]
    fn a_form_becomes_a_request() {
        let form =
            "action=redrive&filter=%7B%22type%22%3A%22A%22%7D&rate=1%2C000&canary=1&steps=2%2C+10&note=+why+";
        let request = read(form).unwrap();
        assert_eq!(request.filter.event_type.as_deref(), Some("A"));
        assert_eq!((request.rate, request.note.as_str()), (Some(1_000), "why"));
        assert_eq!(request.canary.unwrap().steps, [2, 10]);
        let request = read("action=redrive&id=a:1&id=b:2&filter=%7B%7D").unwrap();
        assert_eq!((request.ids.len(), request.canary, request.rate), (2, None, None));
    }

    #[test]
    fn a_form_that_makes_no_sense_is_refused() {
        for form in [
            "",
            "action=delete",
            "action=resolve&id=a:1",
            "action=redrive&id=nonsense",
            "action=redrive&id=a:1&rate=fast",
            "action=redrive&id=a:1&canary=1&steps=one",
            "action=redrive&filter=%7B%22typ%22%3A1%7D",
            "action=redrive&filter=%7B%7D&everything=1",
        ] {
            assert!(read(form).is_err(), "{form}");
        }
        let long = format!("action=resolve&id=a:1&note={}", "n".repeat(2_001));
        assert!(read(&long).is_err(), "no store need keep a longer note than the API takes");
    }
}
