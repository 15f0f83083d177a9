-- An event keeps the number that it was first accepted under, through every redrive: so each is counted
-- once on the left, and must be in one place on the right.
SELECT
    (SELECT count(*) FROM (SELECT COALESCE(t.origin_id, t.id) AS origin FROM {table} AS t
        UNION SELECT COALESCE(t.origin_id, t.original_event_id) FROM {letters} AS t) AS everything),
    (SELECT count(*) FROM {table} AS t WHERE t.processed = FALSE),
    (SELECT count(*) FROM {table} AS t WHERE t.processed = TRUE),
    (SELECT count(*) FROM {letters} AS t WHERE t.resolved = FALSE),
    0,
    (SELECT count(*) FROM {letters} AS t WHERE t.resolved = TRUE AND t.redriven = FALSE),
    0, 0
