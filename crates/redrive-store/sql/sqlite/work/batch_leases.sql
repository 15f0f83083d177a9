(SELECT CAST(key AS INTEGER) AS id, value AS lease FROM json_each($1)) AS s
