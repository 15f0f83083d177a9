UPDATE raw_event AS t
SET processed = TRUE, processed_at = now()
FROM unnest($1::bigint[], $2::bigint[]) AS s(id, lease)
WHERE t.id = s.id AND t.lease = s.lease AND NOT t.processed
