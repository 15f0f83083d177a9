-- $1 ids, $2 operator, $3 note. One statement: the new event is there when the letter is closed. The columns of an
-- application's own tables are converted: {sent_…}; see bury.sql.
WITH closed AS (
    UPDATE {letters} AS t
    SET origin_id = COALESCE(t.origin_id, t.original_event_id), resolved = TRUE, redriven = TRUE, resolved_at = now(), resolved_by = {operator_2}, resolution_note = $3,
        updated_at = now()
    WHERE t.id = ANY($1::bigint[]) AND {waiting}
    RETURNING t.id, t.original_event_id, t.event_type, t.aggregate_type, t.aggregate_id, t.payload,
        COALESCE(t.origin_id, t.original_event_id) AS origin_id, t.redrive_count, t.history{carried_values}
), sent AS (
    INSERT INTO {table} (event_type, aggregate_type, aggregate_id, payload, origin_id, redrive_count, history{event_fixed}{carried})
    SELECT {sent_type}, {sent_aggregate_type}, {sent_aggregate_id}, {sent_payload}, t.origin_id, t.redrive_count + 1,
        t.history{event_fixed_values}{carried_values}
    FROM closed AS t {in_order}
    RETURNING 1
)
-- As in bury.sql: a row that is dropped without an error leaves the letters open.
SELECT CASE WHEN (SELECT count(*) FROM sent) = (SELECT count(*) FROM closed) THEN id
    ELSE ('a trigger or rule drops rows of the outbox without an error, such as letter ' || id)::bigint END
FROM closed
