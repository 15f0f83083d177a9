-- Settles what is done and claims anew: one round trip, one commit. Both parts see the same
-- snapshot; what is being settled is leased, so it is not due and not claimed.
-- $1 ids, $2 leases; $3 worker, $4 lease in microseconds, $5 may take over, $6 how many
WITH done AS (
    {done}
), claimed AS (
    UPDATE {table} AS t
    SET {take}, leased_by = $3, lease = t.lease + 1, due_at = now() + $4 * interval '1 microsecond'
    WHERE t.{id} = ANY(ARRAY(
        SELECT e.{id} FROM {table} AS e
        WHERE {live} AND e.due_at <= now() AND ($5 OR NOT ({leased})) {in_order}
        ORDER BY {order} LIMIT $6
        FOR UPDATE SKIP LOCKED))
    RETURNING {work}
)
SELECT claimed.*, lost.ids
FROM (SELECT ARRAY(SELECT unnest($1::bigint[]) EXCEPT ALL SELECT done_id FROM done) AS ids) AS lost
LEFT JOIN claimed ON TRUE
