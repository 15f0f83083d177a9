-- $1 ids and fingerprints
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$[0]', fingerprint CHAR(16) PATH '$[1]')) AS s
STRAIGHT_JOIN {letters} AS t FORCE INDEX (PRIMARY) ON t.{letter_id} = s.id
SET t.fingerprint = s.fingerprint
WHERE t.fingerprint IS NULL
