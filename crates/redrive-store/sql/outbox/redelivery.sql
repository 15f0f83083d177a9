-- $1 a letter. What it was redriven as carries the number of the first event, and one redrive more; the letter that it
-- was redriven from, one less. If it is nowhere, it was delivered and deleted.
SELECT CASE WHEN t.redriven = FALSE THEN NULL
        WHEN e.id IS NOT NULL AND e.processed = TRUE THEN 'delivered'
        WHEN e.id IS NOT NULL THEN 'pending'
        WHEN d.id IS NOT NULL THEN 'failed'
        ELSE 'delivered' END,
    e.processed_at, d.failed_at, d.id, p.id
FROM {letters} AS t
LEFT JOIN {table} AS e ON e.origin_id = COALESCE(t.origin_id, t.original_event_id)
    AND e.redrive_count = t.redrive_count + 1
LEFT JOIN {letters} AS d ON d.origin_id = COALESCE(t.origin_id, t.original_event_id)
    AND d.redrive_count = t.redrive_count + 1 AND d.redrive_count > 0
LEFT JOIN {letters} AS p ON p.origin_id = t.origin_id AND p.redrive_count = t.redrive_count - 1 AND p.redriven = TRUE
WHERE t.id = $1
