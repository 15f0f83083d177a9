CREATE TABLE IF NOT EXISTS {table} (
    id BIGINT AUTO_INCREMENT PRIMARY KEY,
    action TEXT NOT NULL,
    operator TEXT NOT NULL,
    note TEXT NOT NULL,
    request LONGTEXT NOT NULL,
    state VARCHAR(20) NOT NULL DEFAULT 'freezing'
        CHECK (state IN ('freezing', 'running', 'paused', 'finished', 'cancelled', 'stopped')),
    reason TEXT,
    created_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    updated_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
CREATE TABLE IF NOT EXISTS {items} (
    id BIGINT AUTO_INCREMENT PRIMARY KEY,
    operation_id BIGINT NOT NULL,
    letter_id VARCHAR(255) NOT NULL,
    outcome VARCHAR(20) NOT NULL DEFAULT 'waiting' CHECK (outcome IN ('waiting', 'done', 'refused')),
    reason TEXT
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
CREATE UNIQUE INDEX redrive_operation_item_letter ON {items} (operation_id, letter_id);
CREATE INDEX redrive_operation_item_outcome ON {items} (operation_id, outcome, id);
