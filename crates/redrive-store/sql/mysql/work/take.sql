-- $1 ids, $2 worker, $3 lease in microseconds
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$[0]')) AS s
STRAIGHT_JOIN {table} AS t FORCE INDEX (PRIMARY) ON t.{id} = s.id
SET {take}, t.leased_by = $2, t.lease = t.lease + 1, t.due_at = UTC_TIMESTAMP(6) + INTERVAL $3 MICROSECOND
