-- Just what a lease with a fence needs, and the index that the claim reads. Times are text, as in our
-- own tables: a person can read them, and numbers would be quicker by a few percent only.
CREATE TABLE raw_event (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    event_type VARCHAR(100) NOT NULL,
    aggregate_type VARCHAR(100),
    aggregate_id VARCHAR(255),
    payload TEXT,
    processed BOOLEAN NOT NULL DEFAULT FALSE,
    retry_count INT NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    due_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    lease BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX raw_event_due ON raw_event (due_at, id) WHERE NOT processed;
