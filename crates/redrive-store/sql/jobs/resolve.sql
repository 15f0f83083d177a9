status = 'dead_letter', resolved_at = {now}, resolved_by = given.operator, resolution_note = given.note
