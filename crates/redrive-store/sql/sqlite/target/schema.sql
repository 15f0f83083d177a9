-- For whoever has no table yet; an application's own is left as it is.
CREATE TABLE IF NOT EXISTS {table} (
    {key} VARCHAR(255) NOT NULL PRIMARY KEY,
    {payload} TEXT NOT NULL,
    created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now'))
);
