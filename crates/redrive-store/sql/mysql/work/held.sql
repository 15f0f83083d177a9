-- Locks what is still held, in the order of the numbers: settlements cannot deadlock, and the
-- statements after this one know what is theirs.
SELECT t.{id}, t.lease, t.due_at
FROM {batch} STRAIGHT_JOIN {table} AS t FORCE INDEX (PRIMARY) ON t.{id} = s.id AND t.lease = s.lease
WHERE {held}
ORDER BY t.{id}
FOR UPDATE
