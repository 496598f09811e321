-- Sets new execution ids for the members of a chain execution that are retried.
-- $1 chain execution, $2 ordinals, $3 ids.
update courier.chain_members m set execution_id = n.id
from unnest($2::int[], $3::text[]::uuid[]) as n (ord, id)
where m.chain_execution_id = $1::text::uuid and m.ordinal = n.ord
