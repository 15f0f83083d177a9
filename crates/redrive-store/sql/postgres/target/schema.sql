-- For whoever has no table yet; an application's own is left as it is.
CREATE TABLE IF NOT EXISTS {table} (
    {key} VARCHAR(255) PRIMARY KEY,
    {payload} TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
