-- Letters that redrive keeps itself: handed in by services, or indexed from topics. `source` makes
-- the same record come in once, however often it is read.
CREATE TABLE IF NOT EXISTS {table} (
    id BIGINT AUTO_INCREMENT PRIMARY KEY,
    pipeline VARCHAR(100) NOT NULL,
    kind VARCHAR(20) NOT NULL,
    source VARCHAR(255) NOT NULL,
    event_type VARCHAR(100) NOT NULL,
    event_key VARCHAR(255) NOT NULL,
    payload LONGBLOB NOT NULL,
    headers LONGTEXT NOT NULL,
    origin TEXT NOT NULL,
    target VARCHAR(255),
    state VARCHAR(20) NOT NULL DEFAULT 'open'
        CHECK (state IN ('open', 'queued', 'sending', 'redriven', 'resolved', 'failed')),
    error_message TEXT NOT NULL,
    error_class VARCHAR(20) NOT NULL,
    error_code VARCHAR(100),
    error_kind VARCHAR(255) NOT NULL,
    fingerprint CHAR(16) NOT NULL,
    attempts INT NOT NULL DEFAULT 1,
    history LONGTEXT,
    created_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    first_failed_at DATETIME(6) NOT NULL,
    failed_at DATETIME(6) NOT NULL,
    retry_count INT NOT NULL DEFAULT 0,
    redrive_count INT NOT NULL DEFAULT 0,
    due_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    lease BIGINT NOT NULL DEFAULT 0,
    leased_by VARCHAR(100),
    interrupted BOOLEAN NOT NULL DEFAULT FALSE,
    resolved_at DATETIME(6),
    resolved_by VARCHAR(100),
    resolution_note TEXT
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
-- Binary: MySQL takes 'a ' for 'a' in every text.
ALTER TABLE {table} ADD COLUMN source_key VARBINARY(1020) AS (CAST(source AS BINARY)) VIRTUAL;
CREATE UNIQUE INDEX {table_name}_source ON {table} (pipeline, source_key);
ALTER TABLE {table} ADD COLUMN live TINYINT AS (CASE WHEN state IN ('queued', 'sending') THEN 1 END) VIRTUAL;
CREATE INDEX {table_name}_due ON {table} (pipeline, live, due_at, id);
CREATE INDEX {table_name}_failed ON {table} (pipeline, failed_at, id);
CREATE INDEX {table_name}_state ON {table} (pipeline, state, failed_at, id);
-- Letters are counted from it alone: the rows with their payloads are not read.
CREATE INDEX {table_name}_group ON {table} (pipeline, fingerprint, failed_at, id, state, event_type);
-- What lists are filtered by, newest first: one index for each part of a filter.
CREATE INDEX {table_name}_key ON {table} (pipeline, event_key, failed_at, id);
CREATE INDEX {table_name}_type ON {table} (pipeline, event_type, failed_at, id);
CREATE INDEX {table_name}_class ON {table} (pipeline, error_class, failed_at, id);
CREATE INDEX {table_name}_code ON {table} (pipeline, error_code, failed_at, id);
-- Of letters from topics: which record failed, and for whom; and the letter that it was before.
ALTER TABLE {table} ADD COLUMN record_key VARCHAR(255);
ALTER TABLE {table} ADD COLUMN previous_id BIGINT;
CREATE INDEX {table_name}_record ON {table} (pipeline, record_key);
