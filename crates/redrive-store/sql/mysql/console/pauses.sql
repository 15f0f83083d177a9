-- The pipelines that are paused, for every instance.
CREATE TABLE IF NOT EXISTS {table} (
    id BIGINT AUTO_INCREMENT PRIMARY KEY,
    pipeline VARCHAR(255) NOT NULL,
    operator TEXT NOT NULL,
    at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
CREATE UNIQUE INDEX redrive_pause_pipeline ON {table} (pipeline);
