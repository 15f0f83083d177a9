-- Letters: what never died is not known here, and on neither side.
SELECT count(*),
    count(CASE WHEN t.state IN ('queued', 'sending') THEN 1 END),
    count(CASE WHEN t.state = 'redriven' THEN 1 END),
    count(CASE WHEN t.state IN ('open', 'failed') THEN 1 END),
    0,
    count(CASE WHEN t.state = 'resolved' THEN 1 END),
    0, 0
FROM {table} AS t WHERE {scope}
