status = 'PENDING', retry_count = 0, due_at = {now}, redrive_count = t.redrive_count + 1,
resolved_by = {operator}, resolution_note = given.note
