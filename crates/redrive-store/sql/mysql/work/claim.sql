-- MySQL cannot return what it updates: lock and read first, then take.
-- $1 lease in microseconds, $2 may take over, $3 how many
SELECT {work}, UTC_TIMESTAMP(6) + INTERVAL $1 MICROSECOND
FROM {table} AS e {through}
WHERE {live} {representable} AND e.due_at <= UTC_TIMESTAMP(6) AND ($2 OR NOT ({leased})) {in_order}
ORDER BY {order} LIMIT $3
FOR UPDATE SKIP LOCKED
