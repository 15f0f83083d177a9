-- The columns of our outbox, so that a row is as wide; of its indexes just what a lease with a fence needs.
CREATE TABLE raw_event (
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
    due_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    lease BIGINT NOT NULL DEFAULT 0,
    leased_by VARCHAR(100),
    interrupted BOOLEAN NOT NULL DEFAULT FALSE,
    origin_id BIGINT,
    redrive_count INT NOT NULL DEFAULT 0,
    history TEXT
);
CREATE INDEX raw_event_due ON raw_event (due_at, id) WHERE NOT processed;
