-- $1 a letter. A handler has done its work; a topic takes a record and says no more, unless the record comes back: then
-- it is another letter, which names this one.
SELECT CASE WHEN t.state = 'redriven' AND n.id IS NOT NULL THEN 'failed'
        WHEN t.state = 'redriven' AND t.kind = 'kafka' THEN 'handed-over'
        WHEN t.state = 'redriven' THEN 'delivered'
        WHEN t.state IN ('queued', 'sending') THEN 'pending'
        WHEN t.state = 'failed' THEN 'failed' END,
    t.resolved_at, n.failed_at, n.id, p.id
FROM {table} AS t
LEFT JOIN {table} AS n ON n.pipeline = t.pipeline AND n.record_key = t.record_key AND n.previous_id = t.id
LEFT JOIN {table} AS p ON p.id = t.previous_id AND p.pipeline = t.pipeline AND p.state = 'redriven'
WHERE {scope} AND t.id = $1
