-- The founding columns; then ours. created_at and failed_at are milliseconds since 1970.
CREATE TABLE IF NOT EXISTS {table} (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    {key} VARCHAR(255) NOT NULL,
    {payload} TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    failed_at BIGINT NOT NULL,
    retry_count INT NOT NULL DEFAULT 0,
    last_error TEXT,
    status VARCHAR(50) NOT NULL DEFAULT 'PENDING',
    due_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now'))
);
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
CREATE INDEX {table_name}_status ON {table} (status);
CREATE INDEX {table_name}_failed_at ON {table} (failed_at, id);
CREATE INDEX {table_name}_status_retry ON {table} (status, retry_count);
CREATE INDEX {table_name}_live ON {table} (failed_at, id) WHERE status IN ('PENDING', 'PROCESSING');
CREATE INDEX {table_name}_resolved ON {table} (resolved_at) WHERE status = 'RESOLVED';
-- Letters are counted from it alone: the rows with their payloads are not read.
CREATE INDEX {table_name}_group ON {table} (fingerprint, failed_at, id, status);
-- What lists are filtered by, newest first: one index for each part of a filter.
CREATE INDEX {table_name}_key ON {table} ({key}, failed_at, id);
CREATE INDEX {table_name}_class ON {table} (error_class, failed_at, id);
CREATE INDEX {table_name}_code ON {table} (error_code, failed_at, id) WHERE error_code IS NOT NULL;
CREATE INDEX {table_name}_failed ON {table} (failed_at, id) WHERE status = 'FAILED';
CREATE INDEX {table_name}_saved ON {table} (failed_at, id) WHERE status = 'RESOLVED';
