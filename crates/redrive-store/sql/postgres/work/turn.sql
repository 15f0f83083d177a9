-- Claims anew and settles what is done: one round trip, one commit. Both parts see the same snapshot.
-- The claim comes first, as Postgres reads the parts of a UNION ALL in their order: the older the
-- snapshot, the more rows it finds that another worker has taken since, and each of those costs. So that
-- a lease that has run out by now is settled, and not taken over, it leaves what is settled beside it; a
-- lease that was lost is not settled, and its row is anybody's.
-- $1 ids, $2 leases; $3 worker, $4 lease in microseconds, $5 may take over, $6 how many,
-- then where it begins
WITH done AS (
    {done}
), claimed AS (
    UPDATE {table} AS t
    SET {take}, leased_by = $3, lease = t.lease + 1, due_at = clock_timestamp() + $4 * interval '1 microsecond'
    WHERE t.ctid = ANY(ARRAY(
        SELECT e.ctid FROM {table} AS e
        WHERE {live} AND e.due_at <= now() {in_order} {turn_floor}
        AND (NOT ({leased})
            OR ($5 AND (e.{id}, e.lease) NOT IN (SELECT * FROM unnest($1::bigint[], $2::bigint[]))))
        ORDER BY {order} LIMIT $6
        FOR UPDATE SKIP LOCKED))
    RETURNING {work}
)
SELECT claimed.*, NULL::bigint FROM claimed
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, lost.id
FROM (SELECT unnest($1::bigint[]) AS id EXCEPT ALL SELECT done_id FROM done) AS lost
WHERE (SELECT count(*) FROM done) < cardinality($1::bigint[])
