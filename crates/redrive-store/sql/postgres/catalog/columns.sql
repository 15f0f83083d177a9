-- A domain counts as the type below it. The length of a text type is in its modifier.
SELECT a.attname::text, format_type(a.atttypid, a.atttypmod),
    CASE WHEN t.typtype = 'e' THEN 'enum' ELSE COALESCE(b.typname, t.typname)::text END,
    CASE WHEN t.typname IN ('varchar', 'bpchar') AND a.atttypmod > 4 THEN (a.atttypmod - 4)::bigint END,
    CASE WHEN a.attnotnull THEN 0 ELSE 1 END::bigint,
    CASE WHEN a.atthasdef OR a.attidentity <> '' OR t.typdefault IS NOT NULL THEN 1 ELSE 0 END::bigint,
    CASE WHEN a.attgenerated <> '' THEN 1 WHEN a.attidentity = 'a' THEN 2 ELSE 0 END::bigint,
    (SELECT string_agg(e.enumlabel, E'\n' ORDER BY e.enumsortorder) FROM pg_enum AS e WHERE e.enumtypid = t.oid),
    format_type(a.atttypid, -1)
FROM pg_attribute AS a
JOIN pg_class AS c ON c.oid = a.attrelid
JOIN pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_type AS t ON t.oid = a.atttypid
LEFT JOIN pg_type AS b ON b.oid = NULLIF(t.typbasetype, 0)
WHERE c.relname = $1 AND n.nspname = COALESCE($2, current_schema()) AND c.relkind IN ('r', 'p', 'v', 'f')
    AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
