due_at = {after}, leased_by = NULL, updated_at = {now}
