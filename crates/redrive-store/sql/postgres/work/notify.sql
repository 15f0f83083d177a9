-- Wakes the workers of every instance; on the channel that Outbox::channel and Jobs::channel name. Polling goes on where it is lost.
CREATE FUNCTION {notify}() RETURNS trigger LANGUAGE plpgsql AS
    $$BEGIN PERFORM pg_notify('redrive_{table_name}', ''); RETURN NULL; END$$;
CREATE TRIGGER "{table_name}_notify" AFTER INSERT ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION {notify}();
