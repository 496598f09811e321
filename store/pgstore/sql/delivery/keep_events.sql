-- Keeps the events of what this transaction has written before, a row for each subscription
-- that wants one. While somebody has subscribed, claims, checkpoints and requests are sent
-- with this statement behind them, in the same transaction. Otherwise a parameter of theirs
-- lets them write nothing as soon as somebody has. So events cost next to nothing where
-- nobody has subscribed, and none is missed.
--
-- $1 executions, $2 for each the first number of the audit that the transaction may have
-- written, $3 whether they were claimed, $4 whether their current step has started, if they
-- have one and no lost worker began it.
--
-- store.EventOf defines which entry of the audit is which event, and notify.OfStepEvents
-- which number the events have that a step has emitted. What this transaction has written
-- has its id as xmin.
with e as materialized (
	select w.seq as from_seq, r.* from unnest($1::uuid[], $2::bigint[]) as w (id, seq)
	cross join lateral (
		select x.id, x.definition_id, x.version, x.state_since, x.started_at, x.failure, x.chain_execution_id, x.lease_first_seq, x.last_audit_seq,
			x.current_step, x.current_step_id, x.current_step_type, x.current_iteration, x.current_attempt, x.current_started_at, x.current_lost_worker
		from courier.job_executions x where x.id = w.id and x.xmin = pg_current_xact_id()::xid limit 1
	) r
), h as materialized (
	select r.* from e cross join lateral (
		select x.* from courier.execution_history x
		where x.execution_id = e.id and x.seq >= e.from_seq and x.xmin = pg_current_xact_id()::xid offset 0
	) r
), v as (
	-- Changes of state. That of an execution that has failed names the step.
	select h.execution_id, h.seq + (h.step is not null)::int + (h.interrupted is not null)::int as seq, h.at,
		case h.state_to
			when 'completed' then 'JobCompleted' when 'failed' then 'JobFailed' when 'paused' then 'JobPaused' when 'cancelled' then 'JobCancelled'
			when 'queued' then case when h.state_reason = 'cancelled' then null when h.state_from in ('paused', 'failed') or h.state_reason = 'without_files' then 'JobResumed' when h.state_reason = 'worker_lost' then 'JobTakenOver' end
		end as event,
		f.step, case when f.step is not null then f.at ->> 'id'::text end as step_id, case when f.step is not null then f.at ->> 'type'::text end as step_type,
		case when f.step is not null then f.at ->> 'iteration'::text end as iteration, case when f.step is not null then (f.at ->> 'attempt'::text)::int end as step_attempt,
		null::bigint as bytes, h.state_reason as reason, h.state_error as error, h.by, null::text as event_name, null::text as payload
	from h cross join lateral (
		select w.at, case when (w.at ->> 'step'::text)::int >= 0 then (w.at ->> 'step'::text)::int end as step
		from (select case when h.state_to = 'failed' then (select e.failure::json from e where e.id = h.execution_id) end as at) w
	) f
	where h.state_to is not null
	union all
	-- First claims.
	select e.id, e.lease_first_seq, e.state_since, 'JobStarted', null, null, null, null, null, null, null, null, null, null, null
	from e where $3::bool and e.started_at = e.state_since
	union all
	select e.id, e.last_audit_seq, e.current_started_at, 'StepStarted', e.current_step, e.current_step_id, e.current_step_type, e.current_iteration, e.current_attempt,
		null, null, null, null, null, null
	from e where $4::bool and e.current_step is not null and e.current_lost_worker is null
	union all
	select h.execution_id, h.seq, h.at, case h.state when 'failed' then 'StepFailed' when 'skipped' then 'StepSkipped' else 'StepCompleted' end,
		h.step, h.step_id, h.step_type, h.iteration, h.attempt, coalesce(h.bytes, 0), h.reason, h.error, null, null, null
	from h where h.step is not null
	union all
	select h.execution_id, -(h.seq * 100 + 100 - emitted.n), h.at, 'StepEvent', h.step, h.step_id, h.step_type, h.iteration, h.attempt, null, null, null, null,
		emitted.value ->> 'name'::text, (emitted.value -> 'payload'::text)::text
	from h cross join lateral json_array_elements(h.events::json) with ordinality as emitted (value, n)
)
insert into courier.outbox (subscription_id, execution_id, seq, event, job, chain, version, at, step, step_id, step_type, iteration,
	step_attempt, bytes, reason, error, by, event_name, payload, state, due_at)
select s.id, v.execution_id, v.seq, v.event, x.job, x.chain, x.version, v.at, v.step, v.step_id, v.step_type, v.iteration,
	v.step_attempt, v.bytes, v.reason, v.error, v.by, v.event_name, v.payload, case when s.window_us > 0 then 'held' else 'pending' end, v.at
from v
join courier.subscriptions s on not s.disabled and v.event = any(s.events)
cross join lateral (
	select d.name as job, e.version, coalesce((
		select cd.name from courier.chain_executions c join courier.job_definitions cd on cd.id = c.definition_id where c.id = e.chain_execution_id
	), '') as chain
	from e join courier.job_definitions d on d.id = e.definition_id
	where e.id = v.execution_id limit 1
) x
where pg_catalog.cardinality(s.jobs) + pg_catalog.cardinality(s.chains) + pg_catalog.cardinality(s.expected) = 0 or x.job = any(s.jobs) or x.chain = any(s.chains)
