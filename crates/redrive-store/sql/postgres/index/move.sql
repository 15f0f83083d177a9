-- $1 topics, $2 partitions, $3 offsets. Never back: of two instances that read the same, one is behind.
INSERT INTO {places} AS p (pipeline, topic, partition_id, next_offset)
SELECT {pipeline}, s.topic, s.partition_id, s.next_offset
FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS s(topic, partition_id, next_offset)
ON CONFLICT (pipeline, topic, partition_id)
DO UPDATE SET next_offset = GREATEST(p.next_offset, excluded.next_offset)
