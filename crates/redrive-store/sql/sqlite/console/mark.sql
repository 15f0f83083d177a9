-- $1 letters, outcomes and reasons, $2 operation
UPDATE {items} AS t SET outcome = s.outcome, reason = s.reason
FROM (SELECT value ->> 0 AS letter_id, value ->> 1 AS outcome, value ->> 2 AS reason FROM json_each($1)) AS s
WHERE t.operation_id = $2 AND t.letter_id = s.letter_id AND t.outcome = 'waiting'
