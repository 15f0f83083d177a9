UPDATE {table} AS t
SET {set}
FROM {batch}
WHERE t.{id} = s.id AND t.lease = s.lease AND {held}
RETURNING t.{id} AS done_id
