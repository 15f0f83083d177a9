-- $1 letters, $2 outcomes, $3 reasons, $4 operation
UPDATE {items} AS t SET outcome = s.outcome, reason = s.reason
FROM unnest($1::text[], $2::text[], $3::text[]) AS s(letter_id, outcome, reason)
WHERE t.operation_id = $4 AND t.letter_id = s.letter_id AND t.outcome = 'waiting'
