-- An index that is being built, that holds for some rows only, or that is checked later, keeps no row out.
SELECT i.relname::text, (x.indisunique AND x.indisvalid AND x.indimmediate AND x.indpred IS NULL)::int::bigint,
    COALESCE(a.attname::text, '')
FROM pg_class AS t
JOIN pg_namespace AS n ON n.oid = t.relnamespace
JOIN pg_index AS x ON x.indrelid = t.oid
JOIN pg_class AS i ON i.oid = x.indexrelid
CROSS JOIN LATERAL unnest(x.indkey) WITH ORDINALITY AS k (number, place)
LEFT JOIN pg_attribute AS a ON a.attrelid = t.oid AND a.attnum = k.number AND k.number <> 0
WHERE t.relname = $1 AND n.nspname = COALESCE($2, current_schema()) AND k.place <= x.indnkeyatts
ORDER BY i.relname, k.place
