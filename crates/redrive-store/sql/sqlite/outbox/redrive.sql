-- $1 ids, $2 operator, $3 note. The second of two statements closes the letters: letters/act.sql.
INSERT INTO {table} (event_type, aggregate_type, aggregate_id, payload, origin_id, redrive_count, history{event_fixed}{carried})
SELECT {sent_type}, {sent_aggregate_type}, {sent_aggregate_id}, {sent_payload}, COALESCE(t.origin_id, t.original_event_id),
    t.redrive_count + 1, t.history{event_fixed_values}{carried_values}
FROM {letters} AS t NOT INDEXED, (SELECT $2 AS operator, $3 AS note) AS given
WHERE t.id IN (SELECT value ->> 0 FROM json_each($1)) AND {waiting}
ORDER BY t.id
