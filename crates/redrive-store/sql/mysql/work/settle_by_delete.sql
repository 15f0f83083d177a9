DELETE t FROM {batch} STRAIGHT_JOIN {table} AS t FORCE INDEX (PRIMARY) ON t.{id} = s.id AND t.lease = s.lease
WHERE {held}
