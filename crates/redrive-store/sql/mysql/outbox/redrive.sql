-- $1 ids, $2 operator, $3 note. The second of two statements closes the letters: letters/act.sql.
INSERT INTO {table} (event_type, aggregate_type, aggregate_id, payload, origin_id, redrive_count, history{event_fixed}{carried})
SELECT {sent_type}, {sent_aggregate_type}, {sent_aggregate_id}, {sent_payload}, COALESCE(t.origin_id, t.original_event_id),
    t.redrive_count + 1, t.history{event_fixed_values}{carried_values}
FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$[0]')) AS s
STRAIGHT_JOIN {letters} AS t FORCE INDEX (PRIMARY) ON t.id = s.id
STRAIGHT_JOIN (SELECT $2 AS operator, $3 AS note) AS given
WHERE {waiting}
ORDER BY t.id
