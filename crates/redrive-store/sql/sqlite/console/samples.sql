-- What charts show: the points of each pipeline, a row for each minute and instance.
CREATE TABLE IF NOT EXISTS {table} (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    pipeline TEXT NOT NULL,
    instance TEXT NOT NULL,
    began_at TEXT NOT NULL,
    points TEXT NOT NULL
);
CREATE UNIQUE INDEX redrive_sample_minute ON {table} (began_at, instance, pipeline);
