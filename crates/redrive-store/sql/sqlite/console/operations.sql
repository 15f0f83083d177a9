CREATE TABLE IF NOT EXISTS {table} (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    action TEXT NOT NULL,
    operator TEXT NOT NULL,
    note TEXT NOT NULL,
    request TEXT NOT NULL,
    state VARCHAR(20) NOT NULL DEFAULT 'freezing'
        CHECK (state IN ('freezing', 'running', 'paused', 'finished', 'cancelled', 'stopped')),
    reason TEXT,
    created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    updated_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now'))
);
CREATE TABLE IF NOT EXISTS {items} (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    operation_id BIGINT NOT NULL,
    letter_id VARCHAR(255) NOT NULL,
    outcome VARCHAR(20) NOT NULL DEFAULT 'waiting' CHECK (outcome IN ('waiting', 'done', 'refused')),
    reason TEXT
);
CREATE UNIQUE INDEX redrive_operation_item_letter ON {items} (operation_id, letter_id);
CREATE INDEX redrive_operation_item_outcome ON {items} (operation_id, outcome, id);
