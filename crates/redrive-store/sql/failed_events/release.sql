status = 'PENDING', due_at = {after}, leased_by = NULL
