DELETE FROM raw_event AS t
USING unnest($1::bigint[], $2::bigint[]) AS s(id, lease)
WHERE t.id = s.id AND t.lease = s.lease
