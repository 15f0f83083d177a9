DELETE FROM {purged} AS t
WHERE t.{purged_id} IN (SELECT t.{purged_id} FROM {purged} AS t WHERE ({closed}) AND ({old}) LIMIT {limit})
