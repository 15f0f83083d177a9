-- $1 leases, $2 lease in microseconds
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$[0]', lease BIGINT PATH '$[1]')) AS s
STRAIGHT_JOIN {table} AS t FORCE INDEX (PRIMARY) ON t.{id} = s.id AND t.lease = s.lease
SET t.due_at = UTC_TIMESTAMP(6) + INTERVAL $2 MICROSECOND
WHERE {held}
