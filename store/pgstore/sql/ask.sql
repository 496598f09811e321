-- Carries out what sql/ask_lock.sql has locked an execution for, and writes its
-- audit. $1 execution, $2 the state it enters (empty: none), $3 the request that is
-- left to its worker (empty: none), $4 who asked, $5 whether it is a resume, $6 the
-- marks then, $7 the present step as JSON if it goes back to pending, $8 now, if that
-- has been asked for before, $9 whether it begins again without its files, $10 the
-- reason for the audit, $11 what was given as the reason.
with clock as materialized (
	select coalesce(nullif($8::text, '')::timestamptz, clock_timestamp()) as now
), before as materialized (
	select e.id, e.state, e.state_since, e.seq, e.current_started from courier.job_executions e where e.id = $1::text::uuid
), after as (
	update courier.job_executions e set
		request = case when $2::text = '' then nullif($3::text, '') end,
		requested_by = case when $2::text = '' and $3::text <> '' then $4::text end,
		state = case when $2::text = '' then e.state when $2::text = 'queued' and e.waits is not null then 'waiting' else $2::text end,
		state_since = case when $2::text = '' then e.state_since else clock.now end,
		due_at = case when $5::bool then clock.now else e.due_at end,
		failure = case when not $5::bool then e.failure end,
		resumed = e.resumed or $5::bool,
		resumed_from = case when $9::bool then null when $5::bool then e.state else e.resumed_from end,
		timeout_from = case when not $5::bool then e.timeout_from end,
		marks = case when $5::bool then nullif($6::text, '') else e.marks end,
		reclaims = case when $5::bool then 0 else e.reclaims end,
		attempt = case when $9::bool then e.attempt + 1 else e.attempt end,
		step = case when $9::bool then 0 else e.step end,
		loops = case when not $9::bool then e.loops end,
		workspace = case when $9::bool then '' else e.workspace end,
		disk_bytes = case when $9::bool then 0 else e.disk_bytes end,
		ended_at = case when $2::text = '' then e.ended_at when $2::text in ('completed', 'failed', 'cancelled') then clock.now end,
		lease_last = case when $2::text <> '' and e.state = 'running' then e.seq else e.lease_last end,
		lease_expires_at = case when $2::text = '' then e.lease_expires_at end,
		current_step = case when $2::text = '' then e.current_step end,
		current_attempt = case when $2::text = '' then e.current_attempt end,
		current_started = case when $2::text = '' then e.current_started end,
		current_id = case when $2::text = '' then e.current_id end,
		current_type = case when $2::text = '' then e.current_type end,
		current_iteration = case when $2::text = '' then e.current_iteration end,
		current_total = case when $2::text = '' then e.current_total end,
		current_worker = case when $2::text = '' then e.current_worker end,
		seq = case when $2::text = '' then e.seq when $7::text = '' then e.seq + 1 else e.seq + 2 end
	from clock
	where e.id = $1::text::uuid
	returning e.*
), audit as (
	insert into courier.job_audit_log (execution_id, seq, at, interrupted, state_from, state_to, state_elapsed, reason, error, by)
	select b.id, b.seq + 1, clock.now,
		case when $7::text <> '' then jsonb_set($7::text::jsonb, '{elapsed}',
			to_jsonb(greatest(0, extract(epoch from clock.now - b.current_started) * 1000000)::bigint))::text end,
		case b.state when 'waiting' then 'queued' else b.state end, $2::text, greatest(0, extract(epoch from clock.now - b.state_since) * 1000000),
		nullif($10::text, ''), nullif($11::text, ''), nullif($4::text, '')
	from clock, before b where $2::text <> ''
	/* returning execution_id, seq, at, ended_step, interrupted, started_step, started_id, started_type, started_iteration, started_attempt, state_from, state_to, reason, error, by */
) /* outbox */
select e.id::text, e.definition_id, e.version, e.state, e.queue, e.priority, e.attempt, e.step, e.loops, e.marks,
	e.reclaims, e.resumed_from, e.current_step, e.current_attempt, e.current_started, e.current_id, e.current_type,
	e.current_iteration, e.current_total, e.current_worker, e.params, e.created_at, e.due_at, e.started_at, e.ended_at,
	e.failure, e.request, e.resumed, e.idempotency_key, e.limit_keys, e.timeout_ns, e.created_by, e.worker, e.workspace,
	e.lease_expires_at, e.disk_bytes, e.seq, e.chain_id::text, e.chain_member, e.waits, e.upstream from after e
