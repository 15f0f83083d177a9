-- Rights on a table may be given column by column; on a sequence either right lets a default take its next number.
-- Row-level security hides rows from a role, unless a policy shows it all of them.
WITH named AS (
    SELECT c.oid, c.relname, n.oid AS schema_id, n.nspname
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.relname = $1 AND n.nspname = COALESCE($2, current_schema()) AND c.relkind IN ('r', 'p')
), sequences AS (
    SELECT DISTINCT s.oid, s.relname, n.oid AS schema_id, n.nspname
    FROM named
    JOIN pg_attrdef AS a ON a.adrelid = named.oid
    JOIN pg_depend AS d ON d.classid = 'pg_attrdef'::regclass AND d.objid = a.oid AND d.refclassid = 'pg_class'::regclass
    JOIN pg_class AS s ON s.oid = d.refobjid AND s.relkind = 'S'
    JOIN pg_namespace AS n ON n.oid = s.relnamespace
)
SELECT 'SCHEMA', quote_ident(nspname), 'USAGE', has_schema_privilege(schema_id, 'USAGE')::int::bigint,
    current_user::text
FROM (SELECT schema_id, nspname FROM named UNION SELECT schema_id, nspname FROM sequences) AS schemas
UNION ALL
SELECT 'TABLE', quote_ident(nspname) || '.' || quote_ident(relname), wanted.name,
    CASE WHEN wanted.name = 'DELETE' THEN has_table_privilege(oid, 'DELETE')
        ELSE has_any_column_privilege(oid, wanted.name) END::int::bigint,
    current_user::text
FROM named, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS wanted (name)
UNION ALL
SELECT 'SEQUENCE', quote_ident(nspname) || '.' || quote_ident(relname), 'USAGE',
    has_sequence_privilege(oid, 'USAGE, UPDATE')::int::bigint, current_user::text
FROM sequences
UNION ALL
SELECT 'ROWS', quote_ident(nspname) || '.' || quote_ident(relname), 'ALL', 0, current_user::text
FROM named
WHERE row_security_active(named.oid) AND NOT EXISTS (
    SELECT 1 FROM pg_policy AS p
    WHERE p.polrelid = named.oid AND p.polpermissive AND p.polcmd = '*' AND pg_get_expr(p.polqual, p.polrelid) = 'true'
        AND (p.polroles = ARRAY[0]::oid[] OR EXISTS (
            SELECT 1 FROM unnest(p.polroles) AS r (id) WHERE pg_has_role(current_user, r.id, 'MEMBER'))))
