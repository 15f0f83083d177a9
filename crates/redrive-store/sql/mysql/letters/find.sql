SELECT t.{letter_id}
FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$[0]')) AS s
STRAIGHT_JOIN {letters} AS t ON t.{letter_id} = s.id
WHERE {scope}
