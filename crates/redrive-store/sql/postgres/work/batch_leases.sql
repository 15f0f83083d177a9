unnest($1::bigint[], $2::bigint[]) AS s(id, lease)
