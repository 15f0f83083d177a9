origin_id = COALESCE(t.origin_id, t.original_event_id), resolved = TRUE, redriven = TRUE, resolved_at = {now}, resolved_by = {operator},
resolution_note = given.note, updated_at = {now}
