unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[])
    AS s(id, lease, after, message, class, code, kind, new_fingerprint, new_history)
