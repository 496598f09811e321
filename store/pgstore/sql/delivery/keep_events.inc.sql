-- Keeps the events of a statement for each subscription that wants them. It is a part of
-- the statements that insert rows of the audit as "audit": claims, checkpoints and
-- requests. In those where steps end (ended_steps), "ended" has the inserted step
-- executions; failures says that parameter 16 has failures, whose step the event names;
-- changes_version that "after" has the execution with the version of the events.
--
-- An audit row has up to three entries here: the step attempt that ended, the change of
-- the execution's state, the step attempt that started. An interrupted step comes after
-- the first, and is no event. store.EventOf defines which entry is which event, and
-- notify.OfStepEvents which number the events have that a step has emitted. The row
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
		select a.execution_id, a.seq + (a.ended_step is not null)::int + (a.interrupted is not null)::int as seq, a.at,
			case a.state_to
				when 'completed' then 'JobCompleted' when 'failed' then 'JobFailed' when 'paused' then 'JobPaused'
				when 'cancelled' then 'JobCancelled' when 'running' then 'JobStarted'
				when 'queued' then case when a.state_from in ('paused', 'failed') or a.reason = 'without_files' then 'JobResumed' when a.reason = 'worker_lost' then 'JobTakenOver' end
			end as event,
			f.step, case when f.step is not null then f.of ->> 'id' end as step_id, case when f.step is not null then f.of ->> 'type' end as step_type,
			case when f.step is not null then f.of ->> 'iteration' end as iteration, case when f.step is not null then (f.of ->> 'attempt')::int end as step_attempt,
			null::bigint as bytes, a.reason, a.error, a.by, null::text as event_name, null::text as payload
		from audit a cross join lateral (
			select w.of, case when (w.of ->> 'step')::int >= 0 then (w.of ->> 'step')::int end as step
			from (select case when a.state_to = 'failed' then nullif(
\if :failures
				(select ($16::text[])[u.ord] from u where u.id = a.execution_id)
\else
				null::text
\endif
			, '') end::json as of) w
		) f where a.state_to is not null
		union all
		select a.execution_id, a.seq + (a.ended_step is not null)::int + (a.interrupted is not null)::int + (a.state_to is not null)::int, a.at,
			'StepStarted', a.started_step, a.started_step_id, a.started_step_type, a.started_iteration, a.started_attempt, null, null, null, null, null, null
		from audit a where a.started_step is not null
\if :ended_steps
		union all
		select r.execution_id, r.seq, r.ended_at,
			case r.state when 'completed' then 'StepCompleted' when 'failed' then 'StepFailed' when 'skipped' then 'StepSkipped' end,
			r.step, r.step_id, r.step_type, r.iteration, r.attempt, r.bytes, r.reason, r.error, null, null, null
		from ended r
		union all
		select r.execution_id, -(r.seq * 100 + 100 - e.n), r.ended_at, 'StepEvent', r.step, r.step_id, r.step_type, r.iteration, r.attempt, null, null, null, null,
			e.value ->> 'name', (e.value -> 'payload')::text
		from ended r cross join lateral json_array_elements(r.events::json) with ordinality as e (value, n)
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
