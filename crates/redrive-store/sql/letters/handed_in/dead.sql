-- How it failed at its target is its latest failure; what it failed of before is in the history.
state = 'failed', retry_count = t.retry_count + 1, redrive_count = t.redrive_count + 1,
attempts = t.attempts + 1, failed_at = {now},
error_message = s.message, error_class = s.class, error_code = s.code, error_kind = s.kind,
fingerprint = s.new_fingerprint, history = s.new_history, leased_by = NULL
