-- Keeps the events of a statement for each subscription that wants them. It is a part of
-- the statements that change the state of executions: claims, which have "claimed", and
-- checkpoints and requests, which have "history", the inserted rows, and in checkpoints
-- "u", the executions after the write (starts). failures says that parameter 16 has
-- failures, whose step the event names; changes_version that "after" has the execution
-- with the version of the events.
--
-- store.EventOf defines which entry of the audit is which event, and notify.OfStepEvents
-- which number the events have that a step has emitted. The row
-- of the execution is the one from before the statement: an execution that no worker has
-- claimed before has not started.
--
-- While nobody has subscribed to events, a store sends these statements without this
-- part and with a condition (unsubscribed) that lets them write nothing as soon as
-- somebody has. So it costs next to nothing, and no event is missed.
, kept as (
	insert into courier.outbox (subscription_id, execution_id, seq, event, job, chain, version, at, step, step_id, step_type, iteration,
		step_attempt, bytes, reason, error, by, event_name, payload, state, due_at)
	select s.id, v.execution_id, v.seq, v.event, x.job, x.chain, x.version, v.at, v.step, v.step_id, v.step_type, v.iteration,
		v.step_attempt, v.bytes, v.reason, v.error, v.by, v.event_name, v.payload, case when s.window_us > 0 then 'held' else 'pending' end, v.at
	from (
		select a.execution_id, a.seq, a.at,
			case a.state_to
				when 'completed' then 'JobCompleted' when 'failed' then 'JobFailed' when 'paused' then 'JobPaused'
				when 'cancelled' then 'JobCancelled' when 'running' then 'JobStarted'
				when 'queued' then case when a.state_from in ('paused', 'failed') or a.reason = 'without_files' then 'JobResumed' when a.reason = 'worker_lost' then 'JobTakenOver' end
			end as event,
			f.step, case when f.step is not null then f.of ->> 'id' end as step_id, case when f.step is not null then f.of ->> 'type' end as step_type,
			case when f.step is not null then f.of ->> 'iteration' end as iteration, case when f.step is not null then (f.of ->> 'attempt')::int end as step_attempt,
			null::bigint as bytes, a.reason, a.error, a.by, null::text as event_name, null::text as payload
		from (
\if :claims
			select c.id as execution_id, c.last_audit_seq - 1 as seq, c.claimed_at as at, 'running' as state_from, 'queued' as state_to, 'worker_lost' as reason,
				'the lease of worker "' || c.lost_worker || '" expired' as error, null::text as by
			from claimed c where c.reclaim
			union all
			select c.id, c.lease_first_seq, c.claimed_at, 'queued', 'running', null, null, null from claimed c
\else
			select h.execution_id, h.seq + (h.step is not null)::int + (h.interrupted is not null)::int as seq, h.at, h.state_from, h.state_to, h.state_reason as reason,
				h.state_error as error, h.by
			from history h where h.state_to is not null
\endif
		) a cross join lateral (
			select w.of, case when (w.of ->> 'step')::int >= 0 then (w.of ->> 'step')::int end as step
			from (select case when a.state_to = 'failed' then nullif(
\if :failures
				(select ($16::text[])[u.ord] from u where u.id = a.execution_id)
\else
				null::text
\endif
			, '') end::json as of) w
		) f
\if :claims
		union all
		select c.id, c.last_audit_seq, c.claimed_at, 'StepStarted', c.current_step, c.current_step_id, c.current_step_type, c.current_iteration, c.current_attempt, null, null, null, null, null, null
		from claimed c where not c.reclaim and c.current_step is not null
\else
\if :starts
		union all
		select u.id, u.last_audit_seq, u.now, 'StepStarted', u.next_step, u.next_id, u.next_type, u.next_iteration, u.next_attempt, null, null, null, null, null, null
		from u where u.next_step is not null
\endif
		union all
		select h.execution_id, h.seq, h.at,
			case h.state when 'failed' then 'StepFailed' when 'skipped' then 'StepSkipped' else 'StepCompleted' end,
			h.step, h.step_id, h.step_type, h.iteration, h.attempt, coalesce(h.bytes, 0), h.reason, h.error, null, null, null
		from history h where h.step is not null
		union all
		select h.execution_id, -(h.seq * 100 + 100 - e.n), h.at, 'StepEvent', h.step, h.step_id, h.step_type, h.iteration, h.attempt, null, null, null, null,
			e.value ->> 'name', (e.value -> 'payload')::text
		from history h cross join lateral json_array_elements(h.events::json) with ordinality as e (value, n)
\endif
	) v
	join courier.subscriptions s on not s.disabled and v.event = any(s.events)
	cross join lateral (
		select d.name as job,
\if :changes_version
			(select after.version from after) as version,
\else
			e.version,
\endif
			e.started_at, coalesce((
			select cd.name from courier.chain_executions c join courier.job_definitions cd on cd.id = c.definition_id where c.id = e.chain_execution_id
		), '') as chain
		from courier.job_executions e join courier.job_definitions d on d.id = e.definition_id
		where e.id = v.execution_id limit 1
	) x
	where (v.event <> 'JobStarted' or x.started_at is null)
		and (cardinality(s.jobs) + cardinality(s.chains) = 0 or x.job = any(s.jobs) or x.chain = any(s.chains))
)
