state = 'failed', retry_count = t.retry_count + 1, redrive_count = t.redrive_count + 1,
history = s.new_history, leased_by = NULL
