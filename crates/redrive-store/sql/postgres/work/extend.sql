-- $1 ids, $2 leases, $3 lease in microseconds
UPDATE {table} AS t
SET due_at = clock_timestamp() + $3 * interval '1 microsecond'
FROM unnest($1::bigint[], $2::bigint[]) AS s(id, lease)
WHERE t.{id} = s.id AND t.lease = s.lease AND {held}
RETURNING t.{id}, t.lease, t.due_at
