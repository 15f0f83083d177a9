-- A join: MySQL would look at every row of the table for an IN. What the inner query reads is not
-- locked, so the outer one looks again.
DELETE t FROM (SELECT t.{purged_id} AS id FROM {purged} AS t WHERE ({closed}) AND ({old}) LIMIT {limit}) AS gone
STRAIGHT_JOIN {purged} AS t FORCE INDEX (PRIMARY) ON t.{purged_id} = gone.id
WHERE {closed}
