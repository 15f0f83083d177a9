-- $1 names. The letters of these records, the oldest first.
SELECT s.name, t.source, t.state
FROM JSON_TABLE($1, '$[*]' COLUMNS (name VARCHAR(255) PATH '$[0]')) AS s
STRAIGHT_JOIN {letters} AS t ON t.pipeline = {pipeline} AND t.{by} = s.name
ORDER BY t.id
