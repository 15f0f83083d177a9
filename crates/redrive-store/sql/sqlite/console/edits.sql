-- What a letter was before it was redriven with another payload.
CREATE TABLE IF NOT EXISTS {table} (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    letter_id VARCHAR(255) NOT NULL,
    at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    operator TEXT NOT NULL,
    original BLOB NOT NULL,
    edited BLOB NOT NULL
);
CREATE INDEX redrive_edit_letter ON {table} (letter_id, id);
