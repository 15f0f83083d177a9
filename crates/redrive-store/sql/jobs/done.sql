status = 'completed', completed_at = {now}, leased_by = NULL, error_message = NULL
