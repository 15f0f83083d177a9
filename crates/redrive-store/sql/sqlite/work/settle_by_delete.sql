-- NOT INDEXED: see settle.sql.
DELETE FROM {table} AS t NOT INDEXED
WHERE t.{id} IN (
    SELECT d.{id} FROM {batch} CROSS JOIN {table} AS d NOT INDEXED ON d.{id} = s.id AND d.lease = s.lease)
AND {held}
{returning}
