-- The fence is at least the time in milliseconds: a table of the application's own may give the number
-- of a deleted row to a new one, and a lease on the old one must not fit the new.
-- $1 worker, $2 lease in microseconds, $3 may take over, $4 how many
UPDATE {table} AS t
SET {take}, leased_by = $1, lease = max(t.lease + 1, CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER)),
    due_at = strftime('%Y-%m-%d %H:%M:%f', 'now', ($2 / 1000000.0) || ' seconds')
WHERE t.{id} IN (
    SELECT e.{id} FROM {table} AS e {through}
    WHERE {live} AND e.due_at <= {now} AND ($3 OR NOT ({leased})) {in_order}
    ORDER BY {order} LIMIT $4)
RETURNING {work}
