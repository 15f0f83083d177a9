-- What a letter was before it was redriven with another payload.
CREATE TABLE IF NOT EXISTS {table} (
    id BIGINT AUTO_INCREMENT PRIMARY KEY,
    letter_id VARCHAR(255) NOT NULL,
    at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    operator TEXT NOT NULL,
    original LONGBLOB NOT NULL,
    edited LONGBLOB NOT NULL
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
CREATE INDEX redrive_edit_letter ON {table} (letter_id, id);
