-- $1 sources of letters, and sources of the letters that they were before
UPDATE {letters} AS t SET previous_id = s.id
FROM (SELECT g.value ->> 0 AS source, p.id AS id FROM json_each($1) AS g
    CROSS JOIN {letters} AS p ON p.pipeline = {pipeline} AND p.source = g.value ->> 1) AS s
WHERE t.pipeline = {pipeline} AND t.source = s.source
