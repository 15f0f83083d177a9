-- One statement: the letter is there before the event is gone, or neither is. The columns of an application's own
-- tables are converted: {buried_…}; what its INSERTs must name is in {letter_fixed}, and {carried} are columns that
-- both tables have.
gone AS (
    DELETE FROM {table} AS t
    USING {batch}
    WHERE t.id = s.id AND t.lease = s.lease AND {held}
    RETURNING t.id, t.event_type, t.aggregate_type, t.aggregate_id, t.payload, t.retry_count, t.created_at,
        t.origin_id, t.redrive_count{carried_values}, s.message AS failed_message, s.class AS failed_class,
        s.code AS failed_code, s.kind AS failed_kind, s.new_fingerprint, s.new_history
), buried AS (
    INSERT INTO {letters} (original_event_id, event_type, aggregate_type, aggregate_id, payload, error_message,
        retry_count, created_at, origin_id, redrive_count, error_class, error_code, error_kind, fingerprint, history{letter_fixed}{carried})
    SELECT t.id, {buried_type}, {buried_aggregate_type}, {buried_aggregate_id}, {buried_payload}, {buried_message},
        COALESCE(t.retry_count, 0), COALESCE(t.created_at, now()), COALESCE(t.origin_id, t.id), t.redrive_count,
        t.failed_class, t.failed_code, t.failed_kind, t.new_fingerprint, t.new_history{letter_fixed_values}{carried_values}
    FROM gone AS t
    RETURNING original_event_id
), dead AS (
    -- A trigger or rule of the table may drop a row without an error, and the event would be gone: the cast fails then.
    SELECT CASE WHEN (SELECT count(*) FROM buried) = (SELECT count(*) FROM gone) THEN t.id
        ELSE ('a trigger or rule drops rows of the dead letters without an error, such as event ' || t.id)::bigint
        END AS done_id
    FROM gone AS t
)
