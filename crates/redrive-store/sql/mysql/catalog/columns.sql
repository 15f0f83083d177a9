-- MariaDB says 'NULL' where there is no default and NULL is allowed. A *TEXT type is limited in bytes, not in characters.
SELECT column_name, column_type, data_type,
    CASE WHEN data_type LIKE '%text' THEN character_maximum_length DIV 4 ELSE character_maximum_length END,
    is_nullable = 'YES',
    (column_default IS NOT NULL AND column_default <> 'NULL') OR extra LIKE '%auto_increment%',
    COALESCE(generation_expression, '') <> '', NULL
FROM information_schema.columns
WHERE table_name = $1 AND table_schema = COALESCE($2, DATABASE())
ORDER BY ordinal_position
