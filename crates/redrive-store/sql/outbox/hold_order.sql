-- An event waits for the earlier ones of its aggregate. A redriven one keeps its place.
AND NOT EXISTS (
    SELECT 1 FROM {table} AS b
    WHERE b.aggregate_type = e.aggregate_type AND b.aggregate_id = e.aggregate_id AND b.processed = FALSE
    AND COALESCE(b.origin_id, b.id) < COALESCE(e.origin_id, e.id))
