-- Settles what is done, retried and dead, and claims anew: one round trip, one commit. All parts see the
-- same snapshot. The claim comes first, as Postgres reads the parts of a UNION ALL in their order: the older
-- the snapshot, the more rows it finds that another worker has taken since, and each of those costs. So that
-- a lease that has run out by now is settled, and not taken over, it leaves what is settled beside it; a
-- lease that was lost is not settled, and its row is anybody's.
-- $1, $2 done; $3 to $11 retried; $12 to $20 dead; ids and leases first
-- $21 worker, $22 lease in microseconds, $23 may take over, $24 how many, then where it begins
WITH settled AS (
    SELECT * FROM unnest($1::bigint[] || $3::bigint[] || $12::bigint[], $2::bigint[] || $4::bigint[] || $13::bigint[]) AS s(id, lease)
), done AS (
    {done}
), retried AS (
    {retry}
), {dead}, claimed AS (
    UPDATE {table} AS t
    SET {take}, leased_by = $21, lease = t.lease + 1, due_at = clock_timestamp() + $22 * interval '1 microsecond'
    WHERE t.ctid = ANY(ARRAY(
        SELECT e.ctid FROM {table} AS e
        WHERE {live} AND e.due_at <= now() {in_order} {turn_floor}
        AND (NOT ({leased}) OR ($23 AND (e.{id}, e.lease) NOT IN (SELECT id, lease FROM settled)))
        ORDER BY {order} LIMIT $24
        FOR UPDATE SKIP LOCKED))
    RETURNING {work}
)
SELECT claimed.*, NULL::bigint FROM claimed
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, lost.id
FROM (SELECT id FROM settled EXCEPT ALL
    (SELECT done_id FROM done UNION ALL SELECT done_id FROM retried UNION ALL SELECT done_id FROM dead)) AS lost
WHERE (SELECT count(*) FROM done) + (SELECT count(*) FROM retried) + (SELECT count(*) FROM dead)
    < (SELECT count(*) FROM settled)
