-- An operation on many letters, and its frozen set in portions.
CREATE TABLE IF NOT EXISTS {table} (
    id BIGINT AUTO_INCREMENT PRIMARY KEY,
    action TEXT NOT NULL,
    operator TEXT NOT NULL,
    note TEXT NOT NULL,
    request LONGTEXT NOT NULL,
    request_key VARCHAR(255),
    state VARCHAR(20) NOT NULL DEFAULT 'freezing'
        CHECK (state IN ('freezing', 'running', 'paused', 'finished', 'cancelled', 'stopped')),
    reason TEXT,
    runner VARCHAR(255),
    runner_until DATETIME(6),
    created_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    updated_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
CREATE UNIQUE INDEX redrive_operation_key ON {table} (request_key);
CREATE INDEX redrive_operation_state ON {table} (state);
CREATE TABLE IF NOT EXISTS {portions} (
    id BIGINT AUTO_INCREMENT PRIMARY KEY,
    operation_id BIGINT NOT NULL,
    number BIGINT NOT NULL,
    pipeline VARCHAR(100) NOT NULL,
    followed BIGINT NOT NULL,
    letters BIGINT NOT NULL,
    ids LONGTEXT NOT NULL,
    state VARCHAR(20) NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'sent', 'settled')),
    done BIGINT NOT NULL DEFAULT 0,
    refused BIGINT NOT NULL DEFAULT 0,
    failed BIGINT NOT NULL DEFAULT 0,
    refusals LONGTEXT,
    sent_at DATETIME(6)
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
CREATE UNIQUE INDEX redrive_operation_portion_number ON {portions} (operation_id, number);
CREATE INDEX redrive_operation_portion_state ON {portions} (operation_id, state, number);
