-- MariaDB says 'NULL' where there is no default and NULL is allowed.
SELECT column_name, column_type, data_type, character_maximum_length,
    is_nullable = 'YES',
    (column_default IS NOT NULL AND column_default <> 'NULL') OR extra LIKE '%auto_increment%',
    COALESCE(generation_expression, '') <> '', NULL, character_set_name
FROM information_schema.columns
WHERE table_name = $1 AND table_schema = COALESCE($2, DATABASE())
ORDER BY ordinal_position
