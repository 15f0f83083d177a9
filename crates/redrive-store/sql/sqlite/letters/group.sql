-- $1 ids and fingerprints
UPDATE {letters} AS t NOT INDEXED SET fingerprint = s.fingerprint
FROM (SELECT value ->> 0 AS id, value ->> 1 AS fingerprint FROM json_each($1)) AS s
WHERE t.{letter_id} = s.id AND t.fingerprint IS NULL
