processed = TRUE, processed_at = {now}, leased_by = NULL, updated_at = {now}
