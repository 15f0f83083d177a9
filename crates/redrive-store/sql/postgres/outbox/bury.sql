-- An application's own table may allow NULL, or longer texts, where ours does not.
-- One statement: the letter is there before the event is gone, or neither is.
gone AS (
    DELETE FROM {table} AS t
    USING {batch}
    WHERE t.id = s.id AND t.lease = s.lease AND {held}
    RETURNING t.id, t.event_type, t.aggregate_type, t.aggregate_id, t.payload, t.retry_count, t.created_at,
        t.origin_id, t.redrive_count, s.message, s.class, s.code, s.kind, s.new_fingerprint, s.new_history
), dead AS (
    INSERT INTO {letters} (original_event_id, event_type, aggregate_type, aggregate_id, payload, error_message,
        retry_count, created_at, origin_id, redrive_count, error_class, error_code, error_kind, fingerprint, history)
    SELECT id, left(COALESCE(event_type::text, ''), 100), left(aggregate_type::text, 100), left(aggregate_id::text, 255), payload, message,
        COALESCE(retry_count, 0), COALESCE(created_at, now()), COALESCE(origin_id, id), redrive_count, class, code, kind, new_fingerprint, new_history
    FROM gone
    RETURNING original_event_id AS done_id
)
