DELETE FROM {parked} WHERE id IN (SELECT value ->> 0 FROM json_each($1))
