-- A row that somebody has locked must not keep the others from being extended.
-- $1 ids, $2 leases, $3 lease in microseconds
UPDATE {table} AS t
SET due_at = clock_timestamp() + $3 * interval '1 microsecond'
WHERE t.ctid = ANY(ARRAY(
    SELECT e.ctid FROM {table} AS e
    JOIN unnest($1::bigint[], $2::bigint[]) AS s(id, lease) ON e.{id} = s.id AND e.lease = s.lease
    WHERE {live} AND {leased}
    FOR UPDATE OF e SKIP LOCKED))
RETURNING t.{id}, t.lease, t.due_at
