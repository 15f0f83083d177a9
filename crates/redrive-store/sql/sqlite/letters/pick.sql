SELECT t.{letter_id}, {picked} FROM {letters} AS t NOT INDEXED
WHERE t.{letter_id} IN (SELECT value ->> 0 FROM json_each($1)) AND {known}
