-- MariaDB: the columns that were declared as JSON.
SELECT constraint_name FROM information_schema.check_constraints
WHERE table_name = $1 AND constraint_schema = COALESCE($2, DATABASE())
    AND check_clause = CONCAT('json_valid(`', constraint_name, '`)')
