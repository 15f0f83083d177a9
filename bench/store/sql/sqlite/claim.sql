UPDATE raw_event
SET lease = lease + 1, due_at = $1
WHERE id IN (
    SELECT id FROM raw_event
    WHERE NOT processed AND due_at <= $2
    ORDER BY due_at, id LIMIT $3)
RETURNING id, lease, due_at, event_type, aggregate_type, aggregate_id, payload, created_at, retry_count
