state = 'queued', retry_count = t.retry_count + 1, due_at = {after}, history = s.new_history, leased_by = NULL
