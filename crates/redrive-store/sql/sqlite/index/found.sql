-- $1 names. The letters of these records, the oldest first.
SELECT s.value ->> 0, t.source, t.state FROM json_each($1) AS s
CROSS JOIN {letters} AS t ON t.pipeline = {pipeline} AND t.{by} = s.value ->> 0
ORDER BY t.id
