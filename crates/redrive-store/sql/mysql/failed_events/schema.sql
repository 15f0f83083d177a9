-- The founding columns; then ours. created_at and failed_at are milliseconds since 1970.
CREATE TABLE IF NOT EXISTS {table} (
    id BIGINT AUTO_INCREMENT PRIMARY KEY,
    {key} VARCHAR(255) NOT NULL,
    {payload} LONGTEXT NOT NULL,
    created_at BIGINT NOT NULL,
    failed_at BIGINT NOT NULL,
    retry_count INT NOT NULL DEFAULT 0,
    last_error TEXT,
    status VARCHAR(50) NOT NULL DEFAULT 'PENDING'
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
ALTER TABLE {table} ADD COLUMN due_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6));
ALTER TABLE {table} ADD COLUMN lease BIGINT NOT NULL DEFAULT 0;
ALTER TABLE {table} ADD COLUMN leased_by VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
ALTER TABLE {table} ADD COLUMN interrupted BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE {table} ADD COLUMN redrive_count INT NOT NULL DEFAULT 0;
ALTER TABLE {table} ADD COLUMN error_class VARCHAR(20);
ALTER TABLE {table} ADD COLUMN error_code VARCHAR(100);
ALTER TABLE {table} ADD COLUMN error_kind VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
ALTER TABLE {table} ADD COLUMN fingerprint CHAR(16);
ALTER TABLE {table} ADD COLUMN history LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
ALTER TABLE {table} ADD COLUMN resolved_at DATETIME(6);
ALTER TABLE {table} ADD COLUMN resolved_by VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
ALTER TABLE {table} ADD COLUMN resolution_note TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
CREATE INDEX {table_name}_status ON {table} (status);
CREATE INDEX {table_name}_failed_at ON {table} (failed_at, id);
CREATE INDEX {table_name}_status_retry ON {table} (status, retry_count);
ALTER TABLE {table} ADD COLUMN live TINYINT AS (CASE WHEN status IN ('PENDING', 'PROCESSING') THEN 1 END) VIRTUAL;
CREATE INDEX {table_name}_live ON {table} (live, failed_at, id);
CREATE INDEX {table_name}_resolved ON {table} (status, resolved_at);
-- Letters are counted from it alone: the rows with their payloads are not read.
CREATE INDEX {table_name}_group ON {table} (fingerprint, failed_at, id, status);
-- What lists are filtered by, newest first: one index for each part of a filter.
CREATE INDEX {table_name}_key ON {table} ({letter_key});
CREATE INDEX {table_name}_class ON {table} (error_class, failed_at, id);
CREATE INDEX {table_name}_code ON {table} (error_code, failed_at, id);
CREATE INDEX {table_name}_state ON {table} (status, failed_at, id);
