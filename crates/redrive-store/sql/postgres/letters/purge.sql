DELETE FROM {purged} AS t
WHERE t.{purged_id} = ANY(ARRAY(
    SELECT t.{purged_id} FROM {purged} AS t WHERE ({closed}) AND ({old}) LIMIT {limit} FOR UPDATE SKIP LOCKED))
