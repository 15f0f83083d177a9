-- An application's own table may allow NULL, or longer texts, where ours does not.
-- The first of two statements in one transaction; settle_by_delete.sql is the second.
INSERT INTO {letters} (original_event_id, event_type, aggregate_type, aggregate_id, payload, error_message,
    retry_count, created_at, origin_id, redrive_count, error_class, error_code, error_kind, fingerprint, history)
SELECT t.id, LEFT(COALESCE(t.event_type, ''), 100), LEFT(t.aggregate_type, 100), LEFT(t.aggregate_id, 255), t.payload, s.message,
    COALESCE(t.retry_count, 0), COALESCE(t.created_at, {now}), COALESCE(t.origin_id, t.id), t.redrive_count, s.class, s.code, s.kind, s.new_fingerprint,
    s.new_history
FROM {batch} STRAIGHT_JOIN {table} AS t FORCE INDEX (PRIMARY) ON t.id = s.id AND t.lease = s.lease
WHERE {held}

