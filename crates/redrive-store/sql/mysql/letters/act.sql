-- $1 ids, $2 operator, $3 note
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$[0]')) AS s
STRAIGHT_JOIN {letters} AS t FORCE INDEX (PRIMARY) ON t.{letter_id} = s.id
STRAIGHT_JOIN (SELECT $2 AS operator, $3 AS note) AS given
SET {set}
WHERE {waiting}
