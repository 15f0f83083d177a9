-- Rights on a table may be given column by column; on a sequence either right lets a default take its next number.
WITH named AS (
    SELECT c.oid, c.relname, n.oid AS schema_id, n.nspname
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.relname = $1 AND n.nspname = COALESCE($2, current_schema()) AND c.relkind IN ('r', 'p')
)
SELECT 'SCHEMA', quote_ident(nspname), 'USAGE', has_schema_privilege(schema_id, 'USAGE')::int::bigint,
    current_user::text
FROM named
UNION ALL
SELECT 'TABLE', quote_ident(nspname) || '.' || quote_ident(relname), wanted.name,
    CASE WHEN wanted.name = 'DELETE' THEN has_table_privilege(oid, 'DELETE')
        ELSE has_any_column_privilege(oid, wanted.name) END::int::bigint,
    current_user::text
FROM named, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS wanted (name)
UNION ALL
SELECT 'SEQUENCE', quote_ident(n.nspname) || '.' || quote_ident(s.relname), 'USAGE',
    has_sequence_privilege(s.oid, 'USAGE, UPDATE')::int::bigint, current_user::text
FROM named
JOIN pg_depend AS d ON d.refobjid = named.oid AND d.classid = 'pg_class'::regclass AND d.deptype = 'a'
JOIN pg_class AS s ON s.oid = d.objid AND s.relkind = 'S'
JOIN pg_namespace AS n ON n.oid = s.relnamespace
