-- The transaction is the only writer: nobody takes it over before its end.
-- $1 id, $2 lease
SELECT e.{id} FROM {table} AS e NOT INDEXED
WHERE e.{id} = $1 AND e.lease = $2 AND {live} AND {leased} AND e.due_at > {now}
