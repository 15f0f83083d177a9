-- $1 ids, $2 fingerprints
UPDATE {letters} AS t SET fingerprint = s.fingerprint
FROM unnest($1::bigint[], $2::text[]) AS s(id, fingerprint)
WHERE t.{letter_id} = s.id AND t.fingerprint IS NULL
