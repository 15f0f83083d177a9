-- Locks what is still held and locked by nobody else.
SELECT t.{id}, t.lease
FROM {batch} STRAIGHT_JOIN {table} AS t FORCE INDEX (PRIMARY) ON t.{id} = s.id AND t.lease = s.lease
WHERE {held}
FOR UPDATE SKIP LOCKED
