-- As in dead.sql: the latest failure is shown while the next attempt waits.
state = 'queued', retry_count = t.retry_count + 1, due_at = {after},
attempts = t.attempts + 1, failed_at = {now},
error_message = s.message, error_class = s.class, error_code = s.code, error_kind = s.kind,
fingerprint = s.new_fingerprint, history = s.new_history, leased_by = NULL
