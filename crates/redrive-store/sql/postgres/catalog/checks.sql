-- The constraints that look at this column alone.
SELECT c.conname::text, pg_get_expr(c.conbin, c.conrelid)
FROM pg_constraint AS c
JOIN pg_class AS t ON t.oid = c.conrelid
JOIN pg_namespace AS n ON n.oid = t.relnamespace
JOIN pg_attribute AS a ON a.attrelid = t.oid AND a.attname = $3
WHERE t.relname = $1 AND n.nspname = COALESCE($2, current_schema()) AND c.contype = 'c' AND c.conkey = ARRAY[a.attnum]
