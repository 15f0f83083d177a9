SELECT index_name, non_unique = 0, COALESCE(column_name, '')
FROM information_schema.statistics
WHERE table_name = $1 AND table_schema = COALESCE($2, DATABASE())
ORDER BY index_name, seq_in_index
