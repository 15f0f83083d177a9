-- As balance.sql, where delivered events are deleted: an event that was redriven and is nowhere was delivered.
-- One that was never dead is on neither side by then.
SELECT
    (SELECT count(*) FROM (SELECT COALESCE(t.origin_id, t.id) AS origin FROM {table} AS t
        UNION SELECT COALESCE(t.origin_id, t.original_event_id) FROM {letters} AS t) AS everything),
    (SELECT count(*) FROM {table} AS t WHERE t.processed = FALSE),
    (SELECT count(*) FROM {table} AS t WHERE t.processed = TRUE)
        + (SELECT count(*) FROM {letters} AS t WHERE t.redriven = TRUE
            AND NOT EXISTS (SELECT 1 FROM {table} AS e
                WHERE e.origin_id = COALESCE(t.origin_id, t.original_event_id))
            AND NOT EXISTS (SELECT 1 FROM {letters} AS d
                WHERE d.origin_id = COALESCE(t.origin_id, t.original_event_id)
                    AND d.redrive_count > t.redrive_count AND d.redrive_count > 0)),
    (SELECT count(*) FROM {letters} AS t WHERE t.resolved = FALSE),
    0,
    (SELECT count(*) FROM {letters} AS t WHERE t.resolved = TRUE AND t.redriven = FALSE),
    0, 0
