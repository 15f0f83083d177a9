-- NOT INDEXED: by the number, whatever else has an index; SQLite would take the one on the status.
UPDATE {table} AS t NOT INDEXED
SET {set}
FROM {batch}
WHERE t.{id} = s.id AND t.lease = s.lease AND {held}
{returning}
