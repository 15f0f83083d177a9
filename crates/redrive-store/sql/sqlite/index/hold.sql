-- $1 topics and partitions. Whoever reads the same partitions waits until these are kept.
INSERT INTO {places} AS p (pipeline, topic, partition_id, next_offset)
SELECT {pipeline}, value ->> 0, value ->> 1, 0 FROM json_each($1) WHERE true
ON CONFLICT (pipeline, topic, partition_id) DO UPDATE SET next_offset = p.next_offset
