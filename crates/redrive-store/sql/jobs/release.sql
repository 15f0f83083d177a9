status = 'pending', due_at = {after}, leased_by = NULL
