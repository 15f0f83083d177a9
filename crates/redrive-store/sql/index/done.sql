-- $1 topic, $2 partition, $3 the offset before which the parking lot is done
SELECT p.id, t.id
FROM {parked} AS p LEFT JOIN {letters} AS t ON t.pipeline = {pipeline} AND t.{source_key} = p.source
WHERE p.pipeline = {pipeline} AND p.topic = $1 AND p.partition_id = $2 AND p.record_offset < $3
ORDER BY p.record_offset LIMIT {portion}
