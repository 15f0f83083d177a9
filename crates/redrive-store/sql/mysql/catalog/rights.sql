SELECT 'TABLE', CONCAT('`', c.table_schema, '`.`', c.table_name, '`'), UPPER(wanted.name),
    MAX(FIND_IN_SET(wanted.name, c.privileges) > 0), CURRENT_USER()
FROM information_schema.columns AS c
JOIN (SELECT 'select' AS name UNION ALL SELECT 'insert' UNION ALL SELECT 'update') AS wanted
WHERE c.table_name = $1 AND c.table_schema = COALESCE($2, DATABASE())
GROUP BY c.table_schema, c.table_name, wanted.name
ORDER BY FIELD(wanted.name, 'select', 'insert', 'update')
