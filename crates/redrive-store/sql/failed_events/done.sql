status = 'RESOLVED', resolved_at = {now}, resolved_by = 'redrive', leased_by = NULL
