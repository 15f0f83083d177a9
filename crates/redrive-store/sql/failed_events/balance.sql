-- Events that failed: what was saved at once is in the application's own table, and on neither side.
SELECT count(*),
    count(CASE WHEN t.status = 'PROCESSING' THEN 1 END),
    count(CASE WHEN t.status = 'RESOLVED' AND t.resolved_by = 'redrive' THEN 1 END),
    count(CASE WHEN t.status = 'FAILED' THEN 1 END),
    count(CASE WHEN t.status = 'PENDING' THEN 1 END),
    count(CASE WHEN t.status = 'RESOLVED' AND (t.resolved_by IS NULL OR t.resolved_by <> 'redrive') THEN 1 END),
    0, 0
FROM {table} AS t
