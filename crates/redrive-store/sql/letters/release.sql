state = 'queued', due_at = {after}, leased_by = NULL
