state = 'queued', due_at = {after}, leased_by = NULL, history = COALESCE(s.new_history, t.history)
