-- Settles what is done and claims anew: one round trip, one commit. Both parts see the same
-- snapshot: a lease that has run out by now could be settled and claimed at once. Counting what is
-- done makes Postgres settle first; a claim then skips the rows that the same statement has changed.
-- $1 ids, $2 leases; $3 worker, $4 lease in microseconds, $5 may take over, $6 how many
WITH done AS (
    {done}
), claimed AS (
    UPDATE {table} AS t
    SET {take}, leased_by = $3, lease = t.lease + 1, due_at = clock_timestamp() + $4 * interval '1 microsecond'
    WHERE t.ctid = ANY(ARRAY(
        SELECT e.ctid FROM {table} AS e
        WHERE {live} AND e.due_at <= now() AND ($5 OR NOT ({leased})) {in_order}
        AND (SELECT count(*) >= 0 FROM done)
        ORDER BY {order} LIMIT $6
        FOR UPDATE SKIP LOCKED))
    RETURNING {work}
)
SELECT claimed.*, lost.ids
FROM (SELECT CASE WHEN (SELECT count(*) FROM done) < cardinality($1::bigint[]) THEN
    ARRAY(SELECT unnest($1::bigint[]) EXCEPT ALL SELECT done_id FROM done) END AS ids) AS lost
LEFT JOIN claimed ON TRUE
