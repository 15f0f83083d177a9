-- The founding statement: {attempt} is retry_count + 1, {attempt_limit} is max_retries. retry_count comes last: MySQL assigns from left to right.
status = CASE WHEN {attempt} >= {attempt_limit} THEN 'dead_letter' ELSE 'pending' END{as_status},
error_message = {message}, error_class = s.class, error_code = s.code, error_kind = s.kind,
fingerprint = s.new_fingerprint, history = s.new_history,
completed_at = CASE WHEN {attempt} >= {attempt_limit} THEN {now} ELSE t.completed_at END,
due_at = CASE WHEN {attempt} >= {attempt_limit} THEN {now} ELSE {after} END,
leased_by = NULL, resolved_at = NULL,
retry_count = {attempt}
