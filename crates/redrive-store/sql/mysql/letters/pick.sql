SELECT t.{letter_id}, {picked}
FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$[0]')) AS s
STRAIGHT_JOIN {letters} AS t FORCE INDEX (PRIMARY) ON t.{letter_id} = s.id
WHERE {known}
