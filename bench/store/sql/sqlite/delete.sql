DELETE FROM raw_event
WHERE id IN (
    SELECT d.id FROM json_each($1) AS s
    JOIN raw_event AS d ON d.id = s.value ->> 0 AND d.lease = s.value ->> 1)
