state = 'redriven', redrive_count = t.redrive_count + 1, resolved_at = {now}, leased_by = NULL
