UPDATE {batch} STRAIGHT_JOIN {table} AS t ON t.{id} = s.id AND t.lease = s.lease
SET {set}
WHERE {held}
