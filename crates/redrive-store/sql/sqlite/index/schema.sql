-- How far topics of letters are read: in the database that has the letters, so that a new one has
-- everything read again. And which letters lie in a parking lot, until that is done with them.
CREATE TABLE IF NOT EXISTS {places} (
    pipeline VARCHAR(100) NOT NULL,
    topic VARCHAR(249) NOT NULL,
    partition_id INT NOT NULL,
    next_offset BIGINT NOT NULL,
    PRIMARY KEY (pipeline, topic, partition_id)
);
CREATE TABLE IF NOT EXISTS {parked} (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    pipeline VARCHAR(100) NOT NULL,
    topic VARCHAR(249) NOT NULL,
    partition_id INT NOT NULL,
    record_offset BIGINT NOT NULL,
    source VARCHAR(255) NOT NULL
);
CREATE UNIQUE INDEX {parked_name}_place ON {parked} (pipeline, topic, partition_id, record_offset);
