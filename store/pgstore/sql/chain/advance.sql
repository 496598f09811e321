-- Advances a chain execution that is locked, and creates the executions of the members
-- that are released. Returned are their queues; an empty one says that some of them
-- wait for other jobs. Events of the chain are kept for subscriptions, as by
-- sql/delivery/keep_events.sql.
-- $1 chain execution, $2 state, $3 request (empty: none), $4 member states,
-- $5 ordinals of the released members, $6 now; if that is empty, the time at which
-- execution $7 entered its state; $8 the member whose failure is reported (empty: none).
with clock as materialized (
	select coalesce(nullif($6::text, '')::timestamptz, (select e.state_since from courier.job_executions e where e.id = nullif($7::text, '')::uuid),
		clock_timestamp()) as now
), before as materialized (
	select c.id, c.created_at, c.definition_id, c.version, c.options, c.event_count + 1 as seq, case
			when c.started_at is null and pg_catalog.cardinality($5::int[]) > 0 then 'ChainStarted'
			when $2::text = 'completed' and c.state <> 'completed' then 'ChainCompleted'
			when $2::text = 'failed' and c.state <> 'failed' then 'ChainFailed'
		end as event
	from courier.chain_executions c where c.id = $1::text::uuid
), chain as (
	update courier.chain_executions c set
		state = $2::text,
		request = nullif($3::text, ''),
		member_states = $4::text,
		started_at = case when pg_catalog.cardinality($5::int[]) > 0 then coalesce(c.started_at, clock.now) else c.started_at end,
		ended_at = case when $2::text in ('completed', 'failed', 'cancelled') then coalesce(c.ended_at, clock.now) end,
		event_count = case when before.event is null then c.event_count else before.seq end
	from clock, before
	where c.id = before.id
), released as (
	insert into courier.job_executions (id, created_at, definition_id, version, concurrency_limit, priority, queue, step_types, limit_keys,
		timeout_ns, params, created_by, due_at, state, state_since, attempt, last_audit_seq, step, first_step_type, first_step_id, chain_execution_id, chain_member, waits_for, has_dependents, options)
	select m.execution_id, clock.now, m.definition_id, m.version, m.concurrency_limit, m.priority, m.queue, m.step_types, m.limit_keys,
		m.timeout_ns, m.params, m.created_by, clock.now, 'queued', clock.now, 1, 1, 0, m.first_step_type, m.first_step_id, m.chain_execution_id, m.name,
		m.waits_for, nullif(d.dependents > 0, false), before.options
	from clock, before, courier.chain_members m join courier.job_definitions d on d.id = m.definition_id
	where m.chain_execution_id = $1::text::uuid and m.ordinal = any($5::int[])
	order by m.ordinal
	returning id, created_at, queue, waits_for, options
), labels as (
	insert into courier.trail (key, value, execution_id, seq)
	select l.key, l.value, r.id, 0 from released r cross join lateral json_each_text(r.options::json -> 'labels'::text) l
), deadlines as (
	insert into courier.execution_deadlines (due_at, execution_id, reason)
	select r.created_at + m.max_duration_us::float8 * interval '1 microsecond', r.id, 'max_duration'
	from released r join courier.chain_members m on m.chain_execution_id = $1::text::uuid and m.execution_id = r.id where m.max_duration_us > 0
	union all
	select before.created_at + m.expected_by_us::float8 * interval '1 microsecond', r.id, 'expected_by'
	from before, released r join courier.chain_members m on m.chain_execution_id = $1::text::uuid and m.execution_id = r.id where m.expected_by_us > 0
), kept as (
	insert into courier.outbox (subscription_id, execution_id, seq, event, job, chain, version, at, error, state, due_at)
	select s.id, b.id, b.seq, b.event, '', d.name, b.version, clock.now, case when b.event = 'ChainFailed' then (
			select 'member "' || m.name || '": ' || coalesce(
				(select h.state_error from courier.execution_history h where h.execution_id = m.execution_id and h.state_to is not null order by h.seq desc limit 1),
				'its execution was ' || e.state)
			from courier.chain_members m join courier.job_executions e on e.id = m.execution_id
			where m.chain_execution_id = b.id and m.name = $8::text
		) end, case when s.window_us > 0 then 'held' else 'pending' end, clock.now
	from clock cross join before b
	join courier.job_definitions d on d.id = b.definition_id
	join courier.subscriptions s on not s.disabled and b.event = any(s.events)
		and (pg_catalog.cardinality(s.jobs) + pg_catalog.cardinality(s.chains) + pg_catalog.cardinality(s.expected) = 0 or d.name = any(s.chains))
)
select distinct case when r.waits_for is null then r.queue else '' end from released r
