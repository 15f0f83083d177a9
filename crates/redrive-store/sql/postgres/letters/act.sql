-- $1 ids, $2 operator, $3 note; a CTE gives every parameter a type, whether {set} uses it or not
WITH given AS (SELECT $1::bigint[] AS ids, $2::text AS operator, $3::text AS note)
UPDATE {letters} AS t SET {set}
FROM given
WHERE t.{letter_id} = ANY(given.ids) AND {waiting}
RETURNING t.{letter_id}
