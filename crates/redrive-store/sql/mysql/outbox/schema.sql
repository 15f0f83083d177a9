-- The founding columns, as applications insert them; then ours.
CREATE TABLE IF NOT EXISTS {table} (
    id BIGINT AUTO_INCREMENT PRIMARY KEY,
    event_type VARCHAR(100) NOT NULL,
    aggregate_type VARCHAR(100),
    aggregate_id VARCHAR(255),
    payload LONGTEXT,
    processed BOOLEAN NOT NULL DEFAULT FALSE,
    processed_at DATETIME(6),
    error_message TEXT,
    retry_count INT NOT NULL DEFAULT 0,
    created_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    updated_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
ALTER TABLE {table} ADD COLUMN due_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6));
ALTER TABLE {table} ADD COLUMN lease BIGINT NOT NULL DEFAULT 0;
ALTER TABLE {table} ADD COLUMN leased_by VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
ALTER TABLE {table} ADD COLUMN interrupted BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE {table} ADD COLUMN origin_id BIGINT;
ALTER TABLE {table} ADD COLUMN redrive_count INT NOT NULL DEFAULT 0;
ALTER TABLE {table} ADD COLUMN history LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
-- What waits is one range of it: neither processed events nor dead letters make a claim slower.
CREATE INDEX {table_name}_due ON {table} (processed, due_at, id);
CREATE TABLE IF NOT EXISTS {letters} (
    id BIGINT AUTO_INCREMENT PRIMARY KEY,
    original_event_id BIGINT NOT NULL,
    event_type {letter_event_type},
    aggregate_type {letter_aggregate_type},
    aggregate_id {letter_aggregate_id},
    payload {letter_payload},
    error_message TEXT NOT NULL,
    failed_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    retry_count INT NOT NULL DEFAULT 0,
    resolved BOOLEAN NOT NULL DEFAULT FALSE,
    resolved_at DATETIME(6),
    resolved_by VARCHAR(100),
    resolution_note TEXT,
    created_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    updated_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
ALTER TABLE {letters} ADD COLUMN origin_id BIGINT;
ALTER TABLE {letters} ADD COLUMN redrive_count INT NOT NULL DEFAULT 0;
ALTER TABLE {letters} ADD COLUMN redriven BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE {letters} ADD COLUMN error_class VARCHAR(20);
ALTER TABLE {letters} ADD COLUMN error_code VARCHAR(100);
ALTER TABLE {letters} ADD COLUMN error_kind VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
ALTER TABLE {letters} ADD COLUMN fingerprint CHAR(16);
ALTER TABLE {letters} ADD COLUMN history LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
CREATE INDEX {letters_name}_resolved ON {letters} (resolved);
CREATE INDEX {letters_name}_type ON {letters} (event_type, failed_at, id);
CREATE INDEX {letters_name}_failed ON {letters} (failed_at, id);
CREATE INDEX {letters_name}_open ON {letters} (resolved, failed_at, id);
-- Letters are counted from it alone: the rows with their payloads are not read.
CREATE INDEX {letters_name}_group ON {letters} (fingerprint, failed_at, id, resolved, redriven, event_type);
-- Finds what a letter was sent back as.
CREATE INDEX {table_name}_origin ON {table} (origin_id);
CREATE INDEX {letters_name}_origin ON {letters} (origin_id);
-- What lists are filtered by, newest first: one index for each part of a filter.
CREATE INDEX {letters_name}_key ON {letters} ({letter_key});
CREATE INDEX {letters_name}_class ON {letters} (error_class, failed_at, id);
CREATE INDEX {letters_name}_code ON {letters} (error_code, failed_at, id);
CREATE INDEX {letters_name}_closed ON {letters} (resolved, redriven, failed_at, id);
