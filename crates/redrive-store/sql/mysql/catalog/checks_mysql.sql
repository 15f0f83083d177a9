-- The clause has its quotes escaped.
SELECT c.constraint_name, REPLACE(c.check_clause, '\\''', '''')
FROM information_schema.check_constraints AS c
JOIN information_schema.table_constraints AS t USING (constraint_schema, constraint_name)
WHERE t.table_name = $1 AND c.constraint_schema = COALESCE($2, DATABASE()) AND t.constraint_type = 'CHECK'
