-- $1 an event. It is redriven in its place, and by its schedule without being asked to.
SELECT CASE WHEN t.status = 'RESOLVED' AND t.resolved_by = 'redrive' THEN 'delivered'
        WHEN t.redrive_count = 0 OR t.status = 'RESOLVED' THEN NULL
        WHEN t.status = 'FAILED' THEN 'failed'
        ELSE 'pending' END,
    t.resolved_at, NULL, NULL, NULL
FROM {table} AS t
WHERE t.id = $1
