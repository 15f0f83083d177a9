-- $1: {"id":lease,…}, which SQLite takes apart quicker than rows.
UPDATE raw_event AS t
SET processed = TRUE, processed_at = strftime('%Y-%m-%d %H:%M:%f', 'now')
FROM json_each($1) AS s
WHERE t.id = CAST(s.key AS INTEGER) AND t.lease = s.value AND NOT t.processed
