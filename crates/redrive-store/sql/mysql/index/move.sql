-- $1 topics, partitions and offsets. Never back: of two instances that read the same, one is behind.
INSERT INTO {places} (pipeline, topic, partition_id, next_offset)
SELECT {pipeline}, s.topic, s.partition_id, s.next_offset
FROM JSON_TABLE($1, '$[*]' COLUMNS (
    topic VARCHAR(249) PATH '$[0]', partition_id INT PATH '$[1]', next_offset BIGINT PATH '$[2]')) AS s
ON DUPLICATE KEY UPDATE next_offset = GREATEST({places}.next_offset, s.next_offset)
