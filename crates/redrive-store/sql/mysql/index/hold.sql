-- $1 topics and partitions. Whoever reads the same partitions waits here until these are kept.
INSERT INTO {places} (pipeline, topic, partition_id, next_offset)
SELECT {pipeline}, s.topic, s.partition_id, 0
FROM JSON_TABLE($1, '$[*]' COLUMNS (topic VARCHAR(249) PATH '$[0]', partition_id INT PATH '$[1]')) AS s
ON DUPLICATE KEY UPDATE next_offset = {places}.next_offset
