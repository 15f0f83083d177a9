DELETE FROM raw_job AS t
USING unnest($1::bigint[], $2::bigint[]) AS s(id, lease)
WHERE t.job_id = s.id AND t.lease = s.lease
