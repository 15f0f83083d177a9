-- $1 a letter. A topic takes a record and says no more; a handler has done its work.
SELECT CASE WHEN t.state = 'redriven' AND t.kind = 'kafka' THEN 'handed-over'
        WHEN t.state = 'redriven' THEN 'delivered'
        WHEN t.state IN ('queued', 'sending') THEN 'pending'
        WHEN t.state = 'failed' THEN 'failed' END,
    t.resolved_at, NULL, NULL, NULL
FROM {table} AS t
WHERE {scope} AND t.id = $1
