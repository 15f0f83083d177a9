-- table_xinfo also lists computed columns (hidden 2 and 3). An INTEGER primary key is the row's number, and gets one,
-- unless it has an index of its own: with DESC, or in a table WITHOUT ROWID.
SELECT c.name, c.type, c.type, NULL, c."notnull" = 0 AND c.pk = 0,
    c.dflt_value IS NOT NULL OR (c.pk > 0 AND upper(c.type) = 'INTEGER'
        AND NOT EXISTS (SELECT 1 FROM pragma_index_list($1) AS l WHERE l.origin = 'pk')), c.hidden IN (2, 3), NULL, NULL
FROM pragma_table_xinfo($1) AS c
