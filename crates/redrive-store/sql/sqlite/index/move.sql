-- $1 topics, partitions and offsets. Never back: of two instances that read the same, one is behind.
INSERT INTO {places} AS p (pipeline, topic, partition_id, next_offset)
SELECT {pipeline}, value ->> 0, value ->> 1, value ->> 2 FROM json_each($1) WHERE true
ON CONFLICT (pipeline, topic, partition_id)
DO UPDATE SET next_offset = MAX(p.next_offset, excluded.next_offset)
