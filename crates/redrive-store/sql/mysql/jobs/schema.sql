-- The founding columns; then ours.
CREATE TABLE IF NOT EXISTS {table} (
    job_id BIGINT AUTO_INCREMENT PRIMARY KEY,
    {key} VARCHAR(255) NOT NULL,
    status VARCHAR(20) NOT NULL DEFAULT 'pending'
        CHECK (status IN ('pending', 'running', 'completed', 'failed', 'dead_letter')),
    retry_count INT NOT NULL DEFAULT 0,
    max_retries INT NOT NULL DEFAULT 3,
    error_message TEXT,
    created_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    started_at DATETIME(6),
    completed_at DATETIME(6)
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
ALTER TABLE {table} ADD COLUMN payload LONGTEXT;
ALTER TABLE {table} ADD COLUMN priority SMALLINT NOT NULL DEFAULT 0;
ALTER TABLE {table} ADD COLUMN unique_key VARCHAR(255);
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
-- MySQL has no partial index: computed columns say what is live and what is dead, and one range of
-- an index is all that a claim or a list reads.
ALTER TABLE {table} ADD COLUMN live TINYINT AS (CASE WHEN status IN ('pending', 'running') THEN 1 END) VIRTUAL;
-- Binary: an application's own table may take A for a, and every MySQL text takes 'a ' for 'a'.
ALTER TABLE {table} ADD COLUMN live_key VARBINARY(1020) AS (CASE WHEN status IN ('pending', 'running') THEN CAST(unique_key AS BINARY) END) VIRTUAL;
ALTER TABLE {table} ADD COLUMN dead_at DATETIME(6) AS (CASE WHEN status IN ('failed', 'dead_letter') THEN COALESCE(completed_at, created_at) END) VIRTUAL;
CREATE INDEX {table_name}_due ON {table} (live, priority, due_at, job_id);
CREATE UNIQUE INDEX {table_name}_unique ON {table} (live_key);
CREATE INDEX {table_name}_key ON {table} ({key});
CREATE INDEX {table_name}_dead ON {table} (dead_at, job_id);
CREATE INDEX {table_name}_group ON {table} (fingerprint, dead_at, job_id);
-- What lists are filtered by, newest first: one index for each part of a filter.
CREATE INDEX {table_name}_class ON {table} (error_class, dead_at, job_id);
CREATE INDEX {table_name}_code ON {table} (error_code, dead_at, job_id);
-- 1 open, 2 resolved, 3 failed.
ALTER TABLE {table} ADD COLUMN letter_status TINYINT AS (CASE WHEN status = 'dead_letter' AND resolved_at IS NULL THEN 1 WHEN status = 'dead_letter' THEN 2 WHEN status = 'failed' THEN 3 END) VIRTUAL;
CREATE INDEX {table_name}_open ON {table} (letter_status, dead_at, job_id);
