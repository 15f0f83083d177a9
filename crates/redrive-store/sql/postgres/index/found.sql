-- $1 names. The letters of these records, the oldest first.
SELECT s.name, t.source, t.state FROM unnest($1::text[]) AS s(name)
JOIN {letters} AS t ON t.pipeline = {pipeline} AND t.{by} = s.name
ORDER BY t.id
