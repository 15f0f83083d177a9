status = 'FAILED', retry_count = t.retry_count + 1, due_at = {now}, leased_by = NULL,
last_error = {message}, error_class = s.class, error_code = s.code, error_kind = s.kind,
fingerprint = s.new_fingerprint, history = s.new_history
