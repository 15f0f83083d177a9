-- $1 ids, $2 operator, $3 note
SELECT t.{letter_id}
FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$[0]')) AS s
STRAIGHT_JOIN {letters} AS t FORCE INDEX (PRIMARY) ON t.{letter_id} = s.id
STRAIGHT_JOIN (SELECT $2 AS operator, $3 AS note) AS given
WHERE {waiting}
ORDER BY t.{letter_id}
FOR UPDATE
