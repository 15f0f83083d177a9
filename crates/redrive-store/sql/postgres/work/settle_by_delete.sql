DELETE FROM {table} AS t
USING {batch}
WHERE t.{id} = s.id AND t.lease = s.lease AND {held}
RETURNING t.{id} AS done_id
