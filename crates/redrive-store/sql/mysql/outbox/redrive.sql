-- $1 ids, $2 operator, $3 note. The second of two statements closes the letters: letters/act.sql.
INSERT INTO {table} (event_type, aggregate_type, aggregate_id, payload, origin_id, redrive_count, history)
SELECT t.event_type, t.aggregate_type, t.aggregate_id, t.payload, COALESCE(t.origin_id, t.original_event_id),
    t.redrive_count + 1, t.history
FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$[0]')) AS s
STRAIGHT_JOIN {letters} AS t FORCE INDEX (PRIMARY) ON t.id = s.id
STRAIGHT_JOIN (SELECT $2 AS operator, $3 AS note) AS given
WHERE {waiting}
ORDER BY t.id
