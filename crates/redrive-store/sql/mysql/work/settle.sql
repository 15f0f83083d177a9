UPDATE {batch} STRAIGHT_JOIN {table} AS t FORCE INDEX (PRIMARY) ON t.{id} = s.id AND t.lease = s.lease
SET {set}
WHERE {held}
