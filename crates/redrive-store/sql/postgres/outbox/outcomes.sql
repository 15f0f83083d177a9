-- Where the event is that a letter was sent back as: it carries the number of the first one, and one redrive
-- more. Nowhere, it was delivered and deleted.
SELECT t.id,
    CASE WHEN e.id IS NOT NULL AND e.processed = TRUE THEN 'delivered'
        WHEN e.id IS NOT NULL AND COALESCE(e.retry_count, 0) > 0 THEN 'failed'
        WHEN e.id IS NOT NULL THEN 'pending'
        WHEN d.id IS NOT NULL THEN 'failed'
        WHEN t.redriven = TRUE THEN 'delivered'
        ELSE 'pending' END,
    COALESCE(e.history, d.history)
FROM {letters} AS t
LEFT JOIN {table} AS e ON e.origin_id = COALESCE(t.origin_id, t.original_event_id)
    AND e.redrive_count = t.redrive_count + 1
LEFT JOIN {letters} AS d ON d.origin_id = COALESCE(t.origin_id, t.original_event_id)
    AND d.redrive_count = t.redrive_count + 1 AND d.redrive_count > 0
WHERE t.id = ANY($1::bigint[])
