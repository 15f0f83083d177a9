CREATE INDEX {table_name}_order ON {table} (aggregate_type, aggregate_id) WHERE processed = FALSE;
CREATE INDEX {letters_name}_order ON {letters} (aggregate_type, aggregate_id) WHERE resolved = FALSE;
