-- $1: {"id":lease,…}, which SQLite takes apart quicker than rows.
DELETE FROM raw_event
WHERE id IN (
    SELECT d.id FROM json_each($1) AS s
    CROSS JOIN raw_event AS d ON d.id = CAST(s.key AS INTEGER) AND d.lease = s.value)
