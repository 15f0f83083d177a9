-- Requests that have a key: each is carried out once, and answered the same when it is sent again.
CREATE TABLE IF NOT EXISTS {table} (
    id BIGINT AUTO_INCREMENT PRIMARY KEY,
    scope VARCHAR(200) NOT NULL,
    operator VARCHAR(200) NOT NULL,
    request_key VARCHAR(200) NOT NULL,
    digest VARCHAR(32) NOT NULL,
    answer LONGTEXT,
    asked_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
CREATE UNIQUE INDEX redrive_request_key ON {table} (request_key, operator, scope);
CREATE INDEX redrive_request_asked ON {table} (asked_at);
