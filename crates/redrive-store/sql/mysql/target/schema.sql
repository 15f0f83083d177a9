-- For whoever has no table yet; an application's own is left as it is.
CREATE TABLE IF NOT EXISTS {table} (
    {key} VARCHAR(255) NOT NULL PRIMARY KEY,
    {payload} LONGTEXT NOT NULL,
    created_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
