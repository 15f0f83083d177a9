-- Just what a lease with a fence needs, and the index that the claim reads. Times are numbers
-- (milliseconds): the quickest way, if nobody has to read them.
CREATE TABLE raw_event (
    id INTEGER PRIMARY KEY,
    event_type TEXT NOT NULL,
    aggregate_type TEXT,
    aggregate_id TEXT,
    payload TEXT,
    processed INTEGER NOT NULL DEFAULT 0,
    retry_count INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL DEFAULT 0,
    due_at INTEGER NOT NULL DEFAULT 0,
    lease INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX raw_event_due ON raw_event (due_at, id) WHERE NOT processed;
