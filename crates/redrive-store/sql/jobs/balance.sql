-- Completed jobs that were deleted are on neither side.
SELECT count(*),
    count(CASE WHEN t.status IN ('pending', 'running') THEN 1 END),
    count(CASE WHEN t.status = 'completed' THEN 1 END),
    count(CASE WHEN t.status IN ('failed', 'dead_letter') AND t.resolved_at IS NULL THEN 1 END),
    0,
    count(CASE WHEN t.status IN ('failed', 'dead_letter') AND t.resolved_at IS NOT NULL THEN 1 END),
    0, 0
FROM {table} AS t
