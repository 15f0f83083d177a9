-- What charts show: the points of each pipeline, a row for each minute and instance.
CREATE TABLE IF NOT EXISTS {table} (
    id BIGINT AUTO_INCREMENT PRIMARY KEY,
    pipeline VARCHAR(255) NOT NULL,
    instance VARCHAR(64) NOT NULL,
    began_at DATETIME(6) NOT NULL,
    points TEXT NOT NULL
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
CREATE UNIQUE INDEX redrive_sample_minute ON {table} (began_at, instance, pipeline);
