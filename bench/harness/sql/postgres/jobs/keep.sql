UPDATE raw_job AS t
SET status = 'completed', completed_at = now()
FROM unnest($1::bigint[], $2::bigint[]) AS s(id, lease)
WHERE t.job_id = s.id AND t.lease = s.lease AND t.status = 'running'
