UPDATE raw_event
SET lease = lease + 1, due_at = strftime('%Y-%m-%d %H:%M:%f', 'now', '20 seconds')
WHERE id IN (
    SELECT id FROM raw_event
    WHERE NOT processed AND due_at <= strftime('%Y-%m-%d %H:%M:%f', 'now')
    ORDER BY due_at, id LIMIT $1)
RETURNING id, lease, due_at, event_type, aggregate_type, aggregate_id, payload, created_at, retry_count
