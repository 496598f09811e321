-- The columns of a chain execution c of the chain d, in the order in which scanChainRow reads
-- them, but for the parameters, which are the last.
c.id::text, d.name, c.version, c.created_by, coalesce(c.idempotency_key, ''), coalesce(c.key_scope, ''), c.created_at, c.started_at, c.ended_at,
	c.state, coalesce(c.request, ''), c.member_states, c.plan, coalesce(c.rerun_of::text, ''), c.options
