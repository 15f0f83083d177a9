-- Finds what is old enough to be deleted.
CREATE INDEX {table_name}_kept ON {table} (processed_at) WHERE processed = TRUE;
