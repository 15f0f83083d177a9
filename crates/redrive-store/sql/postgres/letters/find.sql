SELECT t.{letter_id} FROM {letters} AS t WHERE t.{letter_id} = ANY($1::bigint[]) AND {known}
