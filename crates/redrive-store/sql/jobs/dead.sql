-- Due at once, so that a plain UPDATE … SET status = 'pending' is all it takes to requeue it.
status = 'dead_letter', completed_at = {now}, due_at = {now},
error_message = {message}, error_class = s.class, error_code = s.code, error_kind = s.kind,
fingerprint = s.new_fingerprint, history = s.new_history,
leased_by = NULL, resolved_at = NULL,
retry_count = {attempt}
