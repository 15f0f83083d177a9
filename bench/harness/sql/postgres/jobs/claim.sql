UPDATE raw_job
SET status = 'running', started_at = now(), lease = lease + 1, due_at = now() + interval '20 seconds'
WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM raw_job
    WHERE status IN ('pending', 'running') AND due_at <= now()
    ORDER BY priority, due_at, job_id LIMIT $1
    FOR UPDATE SKIP LOCKED))
RETURNING job_id, lease, due_at, 'bench', '', article_id, payload, created_at, retry_count
