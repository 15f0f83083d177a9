-- The failure that made it a letter stays; what stopped the redrive is in the history.
state = 'failed', retry_count = t.retry_count + 1, history = s.new_history, leased_by = NULL
