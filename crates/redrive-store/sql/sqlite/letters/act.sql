-- $1 ids, $2 operator, $3 note
UPDATE {letters} AS t NOT INDEXED SET {set}
FROM (SELECT $2 AS operator, $3 AS note) AS given
WHERE t.{letter_id} IN (SELECT value ->> 0 FROM json_each($1)) AND {waiting}
RETURNING {letter_id}
