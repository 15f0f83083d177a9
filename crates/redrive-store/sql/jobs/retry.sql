-- The founding statement. retry_count comes last: MySQL assigns from left to right.
status = CASE WHEN t.retry_count + 1 >= t.max_retries THEN 'dead_letter' ELSE 'pending' END,
error_message = s.message, error_class = s.class, error_code = s.code, error_kind = s.kind,
fingerprint = s.new_fingerprint, history = s.new_history,
completed_at = CASE WHEN t.retry_count + 1 >= t.max_retries THEN {now} ELSE t.completed_at END,
due_at = CASE WHEN t.retry_count + 1 >= t.max_retries THEN {now} ELSE {after} END,
leased_by = NULL,
retry_count = t.retry_count + 1
