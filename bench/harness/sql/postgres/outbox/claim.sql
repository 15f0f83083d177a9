UPDATE raw_event
SET lease = lease + 1, due_at = now() + interval '20 seconds'
WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM raw_event
    WHERE NOT processed AND due_at <= now()
    ORDER BY due_at, id LIMIT $1
    FOR UPDATE SKIP LOCKED))
RETURNING id, lease, due_at, event_type, aggregate_type, aggregate_id, payload, created_at, retry_count
