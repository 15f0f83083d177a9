retry_count = t.retry_count + 1, error_message = s.message, history = s.new_history,
due_at = {after}, leased_by = NULL, updated_at = {now}
