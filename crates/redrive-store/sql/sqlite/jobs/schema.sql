-- The founding columns; then ours.
CREATE TABLE IF NOT EXISTS {table} (
    job_id INTEGER PRIMARY KEY AUTOINCREMENT,
    {key} VARCHAR(255) NOT NULL,
    status VARCHAR(20) NOT NULL DEFAULT 'pending'
        CHECK (status IN ('pending', 'running', 'completed', 'failed', 'dead_letter')),
    retry_count INT NOT NULL DEFAULT 0,
    max_retries INT NOT NULL DEFAULT 3,
    error_message TEXT,
    created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    started_at TEXT,
    completed_at TEXT,
    due_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now'))
);
ALTER TABLE {table} ADD COLUMN payload TEXT;
ALTER TABLE {table} ADD COLUMN priority SMALLINT NOT NULL DEFAULT 0;
ALTER TABLE {table} ADD COLUMN unique_key VARCHAR(255);
-- SQLite adds no column with a default that is computed: see ../outbox/schema.sql.
ALTER TABLE {table} ADD COLUMN due_at TEXT NOT NULL DEFAULT '1970-01-01 00:00:00.000';
ALTER TABLE {table} ADD COLUMN lease BIGINT NOT NULL DEFAULT 0;
ALTER TABLE {table} ADD COLUMN leased_by VARCHAR(100);
ALTER TABLE {table} ADD COLUMN interrupted BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE {table} ADD COLUMN redrive_count INT NOT NULL DEFAULT 0;
ALTER TABLE {table} ADD COLUMN error_class VARCHAR(20);
ALTER TABLE {table} ADD COLUMN error_code VARCHAR(100);
ALTER TABLE {table} ADD COLUMN error_kind VARCHAR(255);
ALTER TABLE {table} ADD COLUMN fingerprint CHAR(16);
ALTER TABLE {table} ADD COLUMN history TEXT;
ALTER TABLE {table} ADD COLUMN resolved_at TEXT;
ALTER TABLE {table} ADD COLUMN resolved_by VARCHAR(100);
ALTER TABLE {table} ADD COLUMN resolution_note TEXT;
-- Only live jobs are in it: neither completed nor dead ones make a claim slower.
CREATE INDEX {table_name}_due ON {table} (priority, due_at, job_id) WHERE status IN ('pending', 'running');
-- A claim writes a row anew, and with it its place in every index that it is in: most jobs are in neither.
CREATE UNIQUE INDEX {table_name}_unique ON {table} (unique_key)
    WHERE unique_key IS NOT NULL AND status IN ('pending', 'running');
CREATE INDEX {table_name}_key ON {table} ({key}) WHERE status IN ('failed', 'dead_letter');
CREATE INDEX {table_name}_dead ON {table} (COALESCE(completed_at, created_at), job_id)
    WHERE status IN ('failed', 'dead_letter');
-- Dead jobs are counted from it alone: the rows with their payloads are not read.
CREATE INDEX {table_name}_group ON {table} (
    fingerprint, COALESCE(completed_at, created_at), job_id, status, resolved_at)
    WHERE status IN ('failed', 'dead_letter');
-- What lists are filtered by, newest first: one index for each part of a filter.
CREATE INDEX {table_name}_class ON {table} (error_class, COALESCE(completed_at, created_at), job_id)
    WHERE status IN ('failed', 'dead_letter');
CREATE INDEX {table_name}_code ON {table} (error_code, COALESCE(completed_at, created_at), job_id)
    WHERE status IN ('failed', 'dead_letter') AND error_code IS NOT NULL;
CREATE INDEX {table_name}_open ON {table} (COALESCE(completed_at, created_at), job_id)
    WHERE status = 'dead_letter' AND resolved_at IS NULL;
CREATE INDEX {table_name}_closed ON {table} (COALESCE(completed_at, created_at), job_id)
    WHERE status = 'dead_letter' AND resolved_at IS NOT NULL;
CREATE INDEX {table_name}_failed ON {table} (COALESCE(completed_at, created_at), job_id) WHERE status = 'failed';
