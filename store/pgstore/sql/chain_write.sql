-- Writes what follows for a chain execution that is locked, and creates the
-- executions of the members that are released. Returned are their queues.
-- $1 chain execution, $2 state, $3 request (empty: none), $4 how the members stand,
-- $5 ordinals of those to be released, $6 now; if that is empty, it is the
-- instant when $7, an execution, entered its state.
with clock as materialized (
	select coalesce(nullif($6::text, '')::timestamptz, (select e.state_since from courier.job_executions e where e.id = nullif($7::text, '')::uuid),
		clock_timestamp()) as now
), chain as (
	update courier.chain_executions c set
		state = $2::text,
		request = nullif($3::text, ''),
		standing = $4::text,
		started_at = case when cardinality($5::int[]) > 0 then coalesce(c.started_at, clock.now) else c.started_at end,
		ended_at = case when $2::text in ('completed', 'failed', 'cancelled') then coalesce(c.ended_at, clock.now) end
	from clock
	where c.id = $1::text::uuid
), released as (
	insert into courier.job_executions (id, created_at, definition_id, version, job_limit, priority, queue, step_types, limit_keys,
		timeout_ns, params, created_by, due_at, state, state_since, attempt, seq, step, current_type, current_id, chain_id, chain_member)
	select m.execution_id, clock.now, m.definition_id, m.version, m.job_limit, m.priority, m.queue, m.step_types, m.limit_keys,
		m.timeout_ns, m.params, m.created_by, clock.now, 'queued', clock.now, 1, 1, 0, m.first_type, m.first_id, m.chain_id, m.name
	from clock, courier.chain_members m
	where m.chain_id = $1::text::uuid and m.ord = any($5::int[])
	order by m.ord
	returning id, created_at, queue, created_by
), audit as (
	insert into courier.job_audit_log (execution_id, seq, at, state_to, by)
	select r.id, 1, r.created_at, 'queued', nullif(r.created_by, '') from released r
)
select distinct r.queue from released r
