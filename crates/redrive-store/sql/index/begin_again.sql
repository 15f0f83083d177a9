DELETE FROM {places} WHERE pipeline = {pipeline} AND topic = $1 AND partition_id = $2
