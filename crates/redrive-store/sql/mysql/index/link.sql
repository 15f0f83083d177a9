-- $1 sources of letters, and sources of the letters that they were before
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (source VARCHAR(255) PATH '$[0]', previous VARCHAR(255) PATH '$[1]')) AS s
STRAIGHT_JOIN {letters} AS p ON p.pipeline = {pipeline} AND p.source_key = s.previous
STRAIGHT_JOIN {letters} AS t ON t.pipeline = {pipeline} AND t.source_key = s.source
SET t.previous_id = p.id
