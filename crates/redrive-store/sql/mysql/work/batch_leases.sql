JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$[0]', lease BIGINT PATH '$[1]')) AS s
