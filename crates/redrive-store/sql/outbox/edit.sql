-- $1 payload, $2 and $3 the letter that was just sent back
UPDATE {table} SET payload = {edited_value}
WHERE origin_id = (SELECT COALESCE(l.origin_id, l.original_event_id) FROM {letters} AS l WHERE l.id = $2)
    AND redrive_count = (SELECT l.redrive_count + 1 FROM {letters} AS l WHERE l.id = $3)
