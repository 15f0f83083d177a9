resolved = TRUE, resolved_at = {now}, resolved_by = {operator},
resolution_note = given.note, updated_at = {now}
