status = 'RESOLVED', resolved_at = {now}, resolved_by = {operator}, resolution_note = given.note
