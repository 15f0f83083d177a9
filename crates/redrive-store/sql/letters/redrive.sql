state = 'queued', retry_count = 0, due_at = {now}, resolved_by = given.operator, resolution_note = given.note
