-- CROSS JOIN, NOT INDEXED: from the batch to its rows, by their numbers.
-- The first of two statements in one transaction; settle_by_delete.sql is the second. The columns of an application's
-- own tables are converted: see ../../postgres/outbox/bury.sql.
INSERT INTO {letters} (original_event_id, event_type, aggregate_type, aggregate_id, payload, error_message,
    retry_count, created_at, origin_id, redrive_count, error_class, error_code, error_kind, fingerprint, history{letter_fixed}{carried})
SELECT t.id, {buried_type}, {buried_aggregate_type}, {buried_aggregate_id}, {buried_payload}, {buried_message},
    COALESCE(t.retry_count, 0), COALESCE(t.created_at, {now}), COALESCE(t.origin_id, t.id), t.redrive_count, s.class, s.code, s.kind, s.new_fingerprint,
    s.new_history{letter_fixed_values}{carried_values}
FROM {batch} CROSS JOIN {table} AS t NOT INDEXED ON t.id = s.id AND t.lease = s.lease
WHERE {held}
RETURNING original_event_id
