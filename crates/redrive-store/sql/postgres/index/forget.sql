DELETE FROM {parked} WHERE id = ANY($1::bigint[])
