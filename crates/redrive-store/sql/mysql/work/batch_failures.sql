JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$[0]', lease BIGINT PATH '$[1]', after BIGINT PATH '$[2]',
    message LONGTEXT PATH '$[3]', class VARCHAR(20) PATH '$[4]', code VARCHAR(100) PATH '$[5]',
    kind VARCHAR(255) PATH '$[6]', new_fingerprint CHAR(16) PATH '$[7]', new_history LONGTEXT PATH '$[8]')) AS s
