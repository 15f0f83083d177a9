-- table_xinfo also lists computed columns (hidden 2 and 3). The only column of an INTEGER primary key is the row's number.
SELECT c.name, c.type, c.type, NULL, c."notnull" = 0 AND c.pk = 0,
    c.dflt_value IS NOT NULL OR (c.pk > 0 AND upper(c.type) = 'INTEGER'), c.hidden IN (2, 3), NULL, NULL
FROM pragma_table_xinfo($1) AS c
