-- An INTEGER PRIMARY KEY is the number of the row, and has no index of its own.
SELECT name, is_key, indexed FROM (
    SELECT l.name AS name, l."unique" AND NOT l.partial AS is_key, COALESCE(i.name, '') AS indexed, i.seqno AS place
    FROM pragma_index_list($1) AS l, pragma_index_info(l.name) AS i
    UNION ALL
    SELECT 'PRIMARY KEY', 1, name, pk FROM pragma_table_info($1) WHERE pk > 0
) ORDER BY name, place
