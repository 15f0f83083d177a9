-- Finds what is old enough to be deleted.
CREATE INDEX {table_name}_kept ON {table} (processed, processed_at);
