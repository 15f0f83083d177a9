(SELECT value ->> 0 AS id, value ->> 1 AS lease FROM json_each($1)) AS s
