-- And for their letters, until a person has dealt with them.
AND NOT EXISTS (
    SELECT 1 FROM {letters} AS l
    WHERE {same_aggregate} AND l.resolved = FALSE
    AND COALESCE(l.origin_id, l.original_event_id) < COALESCE(e.origin_id, e.id))
