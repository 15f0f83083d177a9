-- $1 letters, outcomes and reasons, $2 operation
UPDATE JSON_TABLE($1, '$[*]' COLUMNS (letter_id VARCHAR(255) PATH '$[0]', outcome VARCHAR(20) PATH '$[1]',
    reason LONGTEXT PATH '$[2]')) AS s
STRAIGHT_JOIN {items} AS t FORCE INDEX (redrive_operation_item_letter)
    ON t.operation_id = $2 AND t.letter_id = s.letter_id
SET t.outcome = s.outcome, t.reason = s.reason
WHERE t.outcome = 'waiting'
