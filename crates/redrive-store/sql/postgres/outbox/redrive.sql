-- $1 ids, $2 operator, $3 note. One statement: the new event is there when the letter is closed.
WITH closed AS (
    UPDATE {letters} AS t
    SET resolved = TRUE, redriven = TRUE, resolved_at = now(), resolved_by = $2, resolution_note = $3,
        updated_at = now()
    WHERE t.id = ANY($1::bigint[]) AND {waiting}
    RETURNING t.*
), sent AS (
    INSERT INTO {table} (event_type, aggregate_type, aggregate_id, payload, origin_id, redrive_count, history)
    SELECT event_type, aggregate_type, aggregate_id, payload, COALESCE(origin_id, original_event_id),
        redrive_count + 1, history
    FROM closed ORDER BY id
)
SELECT id FROM closed
