-- Requests that have a key: each is carried out once, and answered the same when it is sent again.
CREATE TABLE IF NOT EXISTS {table} (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    scope TEXT NOT NULL,
    operator TEXT NOT NULL,
    request_key TEXT NOT NULL,
    digest TEXT NOT NULL,
    answer TEXT,
    asked_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now'))
);
CREATE UNIQUE INDEX redrive_request_key ON {table} (request_key, operator, scope);
CREATE INDEX redrive_request_asked ON {table} (asked_at);
