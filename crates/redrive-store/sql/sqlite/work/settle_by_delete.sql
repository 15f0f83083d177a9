DELETE FROM {table} AS t
WHERE t.{id} IN (
    SELECT d.{id} FROM {batch} JOIN {table} AS d ON d.{id} = s.id AND d.lease = s.lease)
AND {held}
RETURNING {id}
