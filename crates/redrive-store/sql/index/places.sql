SELECT p.topic, p.partition_id, p.next_offset FROM {places} AS p WHERE p.pipeline = {pipeline}
