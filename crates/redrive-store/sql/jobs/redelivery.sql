-- $1 a job. It is redriven in its place.
SELECT CASE WHEN t.redrive_count = 0 THEN NULL
        WHEN t.status = 'completed' THEN 'delivered'
        WHEN t.status IN ('failed', 'dead_letter') THEN 'failed'
        ELSE 'pending' END,
    t.completed_at, t.completed_at, NULL, NULL
FROM {table} AS t
WHERE t.job_id = $1
