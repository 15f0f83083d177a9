-- The founding columns, as applications insert them; then ours.
CREATE TABLE IF NOT EXISTS {table} (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    event_type VARCHAR(100) NOT NULL,
    aggregate_type VARCHAR(100),
    aggregate_id VARCHAR(255),
    payload TEXT,
    processed BOOLEAN NOT NULL DEFAULT FALSE,
    processed_at TEXT,
    error_message TEXT,
    retry_count INT NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    updated_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    due_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now'))
);
-- SQLite adds no column with a default that is computed: in a table of the application's own, new
-- events are due since 1970, which puts them before retries.
ALTER TABLE {table} ADD COLUMN due_at TEXT NOT NULL DEFAULT '1970-01-01 00:00:00.000';
ALTER TABLE {table} ADD COLUMN lease BIGINT NOT NULL DEFAULT 0;
ALTER TABLE {table} ADD COLUMN leased_by VARCHAR(100);
ALTER TABLE {table} ADD COLUMN interrupted BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE {table} ADD COLUMN origin_id BIGINT;
ALTER TABLE {table} ADD COLUMN redrive_count INT NOT NULL DEFAULT 0;
ALTER TABLE {table} ADD COLUMN history TEXT;
-- Only what waits is in it: neither processed events nor dead letters make a claim slower.
CREATE INDEX {table_name}_due ON {table} (due_at, id) WHERE processed = FALSE;
CREATE TABLE IF NOT EXISTS {letters} (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    original_event_id BIGINT NOT NULL,
    event_type {letter_event_type},
    aggregate_type {letter_aggregate_type},
    aggregate_id {letter_aggregate_id},
    payload {letter_payload},
    error_message TEXT NOT NULL,
    failed_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    retry_count INT NOT NULL DEFAULT 0,
    resolved BOOLEAN NOT NULL DEFAULT FALSE,
    resolved_at TEXT,
    resolved_by VARCHAR(100),
    resolution_note TEXT,
    created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    updated_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now'))
);
ALTER TABLE {letters} ADD COLUMN origin_id BIGINT;
ALTER TABLE {letters} ADD COLUMN redrive_count INT NOT NULL DEFAULT 0;
ALTER TABLE {letters} ADD COLUMN redriven BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE {letters} ADD COLUMN error_class VARCHAR(20);
ALTER TABLE {letters} ADD COLUMN error_code VARCHAR(100);
ALTER TABLE {letters} ADD COLUMN error_kind VARCHAR(255);
ALTER TABLE {letters} ADD COLUMN fingerprint CHAR(16);
ALTER TABLE {letters} ADD COLUMN history TEXT;
CREATE INDEX {letters_name}_resolved ON {letters} (resolved_at) WHERE resolved = TRUE;
CREATE INDEX {letters_name}_type ON {letters} (event_type, failed_at, id);
CREATE INDEX {letters_name}_failed ON {letters} (failed_at, id);
CREATE INDEX {letters_name}_open ON {letters} (failed_at, id) WHERE resolved = FALSE;
-- Letters are counted from it alone: the rows with their payloads are not read.
CREATE INDEX {letters_name}_group ON {letters} (fingerprint, failed_at, id, resolved, redriven, event_type);
-- Finds what a letter was sent back as; only redriven events are in it.
CREATE INDEX {table_name}_origin ON {table} (origin_id) WHERE origin_id IS NOT NULL;
-- The same among letters: those that died again.
CREATE INDEX {letters_name}_origin ON {letters} (origin_id) WHERE redrive_count > 0;
-- And the letter that an event was redriven from.
CREATE INDEX {letters_name}_redriven_from ON {letters} (origin_id) WHERE redriven = TRUE;
-- What lists are filtered by, newest first: one index for each part of a filter.
CREATE INDEX {letters_name}_key ON {letters} (aggregate_id, failed_at, id);
CREATE INDEX {letters_name}_class ON {letters} (error_class, failed_at, id);
CREATE INDEX {letters_name}_code ON {letters} (error_code, failed_at, id) WHERE error_code IS NOT NULL;
-- These cost nothing when an event dies.
CREATE INDEX {letters_name}_redriven ON {letters} (failed_at, id) WHERE redriven = TRUE;
CREATE INDEX {letters_name}_closed ON {letters} (failed_at, id) WHERE resolved = TRUE AND redriven = FALSE;
