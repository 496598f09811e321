-- Creates the chain executions that do not exist and whose version does.
-- $1 ids, $2 chains, $3 versions, $4 params, $5 created by, $6 idempotency keys,
-- $7 plans, $8 member states, $9 the chain executions that are run again (empty: none),
-- $10 labels and trace as JSON (empty: none), $11 the scopes of the keys (empty: the chain).
with clock as materialized (
	select clock_timestamp() as now
)
insert into courier.chain_executions (id, created_at, definition_id, version, params, created_by, idempotency_key, plan, state, member_states, rerun_of, options, key_scope)
select n.id, clock.now, d.id, n.version, nullif(n.params, ''), n.by, nullif(n.key, ''), n.plan, 'pending', n.member_states, nullif(n.rerun_of, '')::uuid, nullif(n.options, ''), nullif(n.key_scope, '')
from clock, unnest($1::text[]::uuid[], $2::text[], $3::int[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[])
	with ordinality as n (id, chain, version, params, by, key, plan, member_states, rerun_of, options, key_scope, ord)
join courier.job_definitions d on d.kind = 'chain' and d.name = n.chain and not d.removed
join courier.job_definition_versions v on v.definition_id = d.id and v.version = n.version
order by n.ord
on conflict do nothing
returning id::text, created_at
