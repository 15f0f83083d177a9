-- For a table of the application's own without AUTOINCREMENT: SQLite gives the number of a deleted event to a new one.
-- Each event gets a number of its own that is never used again, in origin_id; its idempotency key is made from that.
-- It begins above every number that was ever given: the time in milliseconds is beyond them.
CREATE TABLE IF NOT EXISTS redrive_sequence (
    name TEXT NOT NULL PRIMARY KEY,
    last INTEGER NOT NULL
);
INSERT INTO redrive_sequence (name, last) SELECT '{table_name}', max(CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER), (SELECT COALESCE(max({id}), 0) FROM {table})) WHERE NOT EXISTS (SELECT 1 FROM redrive_sequence WHERE name = '{table_name}');
CREATE TRIGGER "{table_name}_key" AFTER INSERT ON {table} WHEN NEW.origin_id IS NULL BEGIN UPDATE redrive_sequence SET last = last + 1 WHERE name = '{table_name}'; UPDATE {table} SET origin_id = (SELECT last FROM redrive_sequence WHERE name = '{table_name}') WHERE {id} = NEW.{id}; END;
