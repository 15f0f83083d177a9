-- Locks work whose lease has not run out: until the end of the transaction nobody takes it over.
-- $1 id, $2 lease
SELECT e.{id} FROM {table} AS e
WHERE e.{id} = $1 AND e.lease = $2 AND {live} AND {leased} AND e.due_at > clock_timestamp()
FOR UPDATE
