-- $1 topics, $2 partitions. Whoever reads the same partitions waits here until these are kept.
INSERT INTO {places} AS p (pipeline, topic, partition_id, next_offset)
SELECT {pipeline}, s.topic, s.partition_id, 0 FROM unnest($1::text[], $2::bigint[]) AS s(topic, partition_id)
ON CONFLICT (pipeline, topic, partition_id) DO UPDATE SET next_offset = p.next_offset
