-- The chain executions that exist under an id or, for their chain, an idempotency key.
-- $1 ids, $2 chains, $3 keys. Returned are ids and the ordinals of the parameters.
select c.id::text, n.ord
from unnest($1::text[]::uuid[], $2::text[], $3::text[]) with ordinality as n (id, chain, key, ord)
cross join lateral (
	select u.* from (
		select 1 as rank, x.id from courier.chain_executions x where x.id = n.id
		union all
		select 2 as rank, x.id from courier.chain_executions x join courier.job_definitions d on d.id = x.definition_id
		where n.key <> '' and d.kind = 'chain' and d.name = n.chain and x.idempotency_key = n.key
	) u order by u.rank limit 1
) c
