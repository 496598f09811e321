-- The chain executions that exist under an id or an idempotency key. $1 ids, $2 chains,
-- $3 keys, $4 their scopes (empty: the chain). Returned are ids and the ordinals of the parameters.
select c.id::text, n.ord
from unnest($1::text[]::uuid[], $2::text[], $3::text[], $4::text[]) with ordinality as n (id, chain, key, scope, ord)
cross join lateral (
	select u.* from (
		select 1 as rank, x.id from courier.chain_executions x where x.id = n.id
		union all
		select 2 as rank, x.id from courier.chain_executions x
		where n.key <> '' and x.idempotency_key = n.key and coalesce(x.key_scope, '') = n.scope
			and case when x.key_scope is null then x.definition_id else 0 end
				= case n.scope when '' then (select d.id from courier.job_definitions d where d.kind = 'chain' and d.name = n.chain) else 0 end
	) u order by u.rank limit 1
) c
