SELECT t.{letter_id}, {picked} FROM {letters} AS t WHERE t.{letter_id} = ANY($1::bigint[]) AND {known}
