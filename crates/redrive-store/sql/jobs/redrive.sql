-- It gives up its unique key: another job may hold it by now.
status = 'pending', retry_count = 0, due_at = {now}, redrive_count = t.redrive_count + 1, unique_key = NULL,
completed_at = NULL, resolved_at = NULL, resolved_by = {operator}, resolution_note = given.note
