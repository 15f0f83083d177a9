-- $1 payload, $2 and $3 the letter that was just sent back
UPDATE {letters} SET {edited} = {edited_value} WHERE {letter_id} = $2 AND {letter_id} = $3
