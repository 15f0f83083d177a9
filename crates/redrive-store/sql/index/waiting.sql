SELECT p.id FROM {parked} AS p WHERE p.pipeline = {pipeline} AND p.topic = $1 AND p.partition_id = $2 LIMIT 1
