(SELECT value ->> 0 AS id, value ->> 1 AS lease, value ->> 2 AS after, value ->> 3 AS message,
    value ->> 4 AS class, value ->> 5 AS code, value ->> 6 AS kind, value ->> 7 AS new_fingerprint,
    value ->> 8 AS new_history FROM json_each($1)) AS s
