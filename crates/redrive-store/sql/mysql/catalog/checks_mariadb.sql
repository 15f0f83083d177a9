SELECT constraint_name, check_clause FROM information_schema.check_constraints
WHERE table_name = $1 AND constraint_schema = COALESCE($2, DATABASE())
