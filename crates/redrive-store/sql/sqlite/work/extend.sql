-- NOT INDEXED: see settle.sql.
-- $1 leases, $2 lease in microseconds
UPDATE {table} AS t NOT INDEXED
SET due_at = strftime('%Y-%m-%d %H:%M:%f', 'now', ($2 / 1000000.0) || ' seconds')
FROM (SELECT CAST(key AS INTEGER) AS id, value AS lease FROM json_each($1)) AS s
WHERE t.{id} = s.id AND t.lease = s.lease AND {held}
RETURNING {id}, lease, due_at
