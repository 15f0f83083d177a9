-- $1 sources of letters, $2 sources of the letters that they were before
UPDATE {letters} AS t SET previous_id = p.id
FROM unnest($1::text[], $2::text[]) AS s(source, previous)
JOIN {letters} AS p ON p.pipeline = {pipeline} AND p.source = s.previous
WHERE t.pipeline = {pipeline} AND t.source = s.source
