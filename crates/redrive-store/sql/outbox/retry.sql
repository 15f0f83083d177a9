retry_count = COALESCE(t.retry_count, 0) + 1, error_message = {message}, history = s.new_history,
due_at = {after}, leased_by = NULL, updated_at = {now}
