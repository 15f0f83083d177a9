//! A body for each operation that takes one: what the description shows, and what a test sends.

use serde_json::{Value, json};
use utoipa::openapi::RefOr;
use utoipa::openapi::path::Operation;

/// Adds the examples of an operation to its request body.
pub(super) fn add(operation: &mut Operation) {
    let Some(example) = operation.operation_id.as_deref().and_then(of) else { return };
    let Some(RefOr::T(body)) = &mut operation.request_body else { return };
    for (media_type, content) in &mut body.content {
        let RefOr::T(content) = content else { continue };
        content.example = Some(match media_type.as_str() {
            "application/x-ndjson" => Value::String(lines(&example)),
            _ => example.clone(),
        });
    }
}

/// One value per line.
fn lines(example: &Value) -> String {
    let values = example.as_array().map_or(std::slice::from_ref(example), Vec::as_slice);
    values.iter().map(|value| format!("{value}\n")).collect()
}

/// What may be sent to an operation.
fn of(operation: &str) -> Option<Value> {
    Some(match operation {
        "redrive_dead_letter" => json!({"payload": {"total": 99}}),
        "resolve_dead_letter" => json!({"note": "paid by hand"}),
        "start_redrive" => json!({
            "filter": {"type": "OrderCreated", "code": "http:503", "since": "1h"}, "rate": 50, "canary": true,
            "note": "the address is corrected"
        }),
        "start_resolution" => json!({"filter": {"type": "OrderCreated", "until": "30d"}, "note": "too old"}),
        "create_dead_letter" => json!({
            "event_type": "PaymentDone", "key": "42", "payload": {"total": 99}, "source": "billing/7",
            "headers": [{"name": "trace", "value": "abc"}], "service": "billing", "attempts": 3,
            "error": {"message": "gateway away", "kind": "IOException", "class": "transient", "code": "http:503"},
            "failed_at": "2025-10-21T07:28:00Z"
        }),
        "append_events" => json!([
            {"event_type": "OrderCreated", "aggregate_type": "Order", "aggregate_id": "42", "payload": {"total": 99}}
        ]),
        "persist_events" => json!([{"key": "abc", "payload": "https://example.org/a/long/way"}]),
        "ingest_events" => json!([{"page": "/", "visitor": 7}, {"page": "/help", "visitor": 7}]),
        "enqueue_jobs" => json!([{"subject": "article-7", "payload": "…", "priority": 0, "max_retries": 3}]),
        "claim_jobs" => json!({"worker": "w1", "limit": 10, "lease": "30s"}),
        "complete_job" => json!({"lease": "1"}),
        "fail_job" => json!({
            "lease": "1", "error": "no answer", "kind": "Timeout", "class": "transient", "code": "http:503",
            "retry_after": "1m"
        }),
        "extend_lease" => json!({"lease": "1", "extend": "30s"}),
        _ => return None,
    })
}
