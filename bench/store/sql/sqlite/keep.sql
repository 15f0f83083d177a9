UPDATE raw_event AS t
SET processed = 1
FROM json_each($1) AS s
WHERE t.id = s.value ->> 0 AND t.lease = s.value ->> 1 AND NOT t.processed
