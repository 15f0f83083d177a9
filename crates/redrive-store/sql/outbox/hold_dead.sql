-- And for their letters, until a person has dealt with them.
AND NOT EXISTS (
    SELECT 1 FROM {letters} AS l
    WHERE l.aggregate_type = e.aggregate_type AND l.aggregate_id = e.aggregate_id AND l.resolved = FALSE
    AND COALESCE(l.origin_id, l.original_event_id) < COALESCE(e.origin_id, e.id))
