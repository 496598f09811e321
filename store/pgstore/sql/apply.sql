-- Writes transitions, at most one for each execution, in the order of their
-- ids. Each is written if its guards hold, and no row tells that it was not.
-- Returned are the ordinals of those that were.
--
-- The old row tells what the step and the state were, since RETURNING knows only
-- the new one. That nothing but the lease's end changed in between is what the
-- guard on its place sees to, and where something did, the transition is not
-- written this time.
--
-- An UPDATE keeps a copy of all that it is joined with, in case it has to look at
-- a row again. So it is joined with little, and takes the rest from the arrays.
--
-- Transitions: $1 execution, $2 token, $3 seq, $4 number of the last entry
-- but for that of an interrupt,
-- $5 state, $6 delay in microseconds, $7 position, $8 its loops, $9 marks,
-- $10 reclaims, $11 resumed from, $12 request carried out, $13 passes a pause,
-- $14 passes a cancel, $15 interrupt, $16 failure, $17 its reason, $18 its
-- message, $19 retry of the job, $20 workspace, $21 disk; what starts: $22 step
-- (-1: nothing), $23 attempt, $24 id, $25 type, $26 iteration, $27 totals.
-- Ended attempts: $28 ordinal of the transition, $29 whether it is that
-- transition's last, $30 seq, $31 step, $32 attempt, $33 state, $34 type, $35 id,
-- $36 iteration, $37 totals, $38 started (empty: as the store knows), $39 bytes,
-- $40 outputs, $41 files, $42 reason, $43 error. Empty text is null.
with clock as materialized (
	select clock_timestamp() as now
), old as materialized (
	select t.ord::int as ord, e.place, e.id, e.attempt, e.worker, e.state_since, e.request, e.requested_by,
		e.current_step, e.current_attempt, e.current_started, e.current_id, e.current_type, e.current_iteration
	from unnest($1::text[]::uuid[], $2::text[]::uuid[], $3::bigint[], $12::text[], $13::bool[], $14::bool[])
		with ordinality as t (id, token, seq, request, passes_pause, passes_cancel, ord)
	cross join lateral (
		select x.ctid as place, x.* from courier.job_executions x where x.id = t.id limit 1
	) e
	where e.token = t.token and e.state = 'running' and e.seq = t.seq - 1
		and (t.request = '' or t.request = e.request)
		and (e.request is null or e.request = 'pause' and t.passes_pause or e.request = 'cancel' and t.passes_cancel)
	order by t.ord
), i as materialized (
	select ord, place from old
), u as (
	update courier.job_executions e set
		due_at = case when ($5::text[])[i.ord] = 'queued' then (select now from clock) + ($6::bigint[])[i.ord] * interval '1 microsecond' else e.due_at end,
		state = ($5::text[])[i.ord],
		state_since = case when ($5::text[])[i.ord] = 'running' then e.state_since else (select now from clock) end,
		attempt = case when ($19::bool[])[i.ord] then e.attempt + 1 else e.attempt end,
		resumed_from = nullif(($11::text[])[i.ord], ''),
		ended_at = case when ($5::text[])[i.ord] in ('completed', 'failed', 'cancelled') then (select now from clock) end,
		failure = case when ($16::text[])[i.ord] <> '' then ($16::text[])[i.ord] when ($5::text[])[i.ord] in ('running', 'queued') then e.failure end,
		workspace = case when ($20::text[])[i.ord] <> '' then ($20::text[])[i.ord] else e.workspace end,
		disk_bytes = case when ($21::bigint[])[i.ord] <> 0 then ($21::bigint[])[i.ord] else e.disk_bytes end,
		lease_last = case when ($5::text[])[i.ord] = 'running' then e.lease_last
			else ($4::bigint[])[i.ord] + (($15::bool[])[i.ord] and e.current_step is not null)::int end,
		reclaims = ($10::int[])[i.ord],
		request = case when ($5::text[])[i.ord] = 'running' then e.request end,
		requested_by = case when ($5::text[])[i.ord] = 'running' then e.requested_by end,
		lease_expires_at = case when ($5::text[])[i.ord] = 'running' then e.lease_expires_at end,
		seq = ($4::bigint[])[i.ord] + (($15::bool[])[i.ord] and e.current_step is not null)::int,
		step = ($7::int[])[i.ord],
		loops = nullif(($8::text[])[i.ord], ''),
		marks = nullif(($9::text[])[i.ord], ''),
		current_step = nullif(($22::int[])[i.ord], -1),
		current_attempt = case when ($22::int[])[i.ord] >= 0 then ($23::int[])[i.ord] end,
		current_started = case when ($22::int[])[i.ord] >= 0 then (select now from clock) end,
		current_id = nullif(($24::text[])[i.ord], ''),
		current_type = nullif(($25::text[])[i.ord], ''),
		current_iteration = nullif(($26::text[])[i.ord], ''),
		current_total = nullif(($27::text[])[i.ord], ''),
		current_worker = null
	from i
	where e.ctid = i.place and e.state = 'running'
	returning i.ord
), x as materialized (
	select * from unnest($28::int[], $29::bool[], $30::bigint[], $31::int[], $32::int[], $33::text[], $34::text[], $35::text[],
		$36::text[], $37::text[], $38::text[], $39::bigint[], $40::text[], $41::text[], $42::text[], $43::text[])
	as x (ord, last, seq, step, attempt, state, type, step_id, iteration, total, started, bytes, outputs, files, reason, error)
), w as materialized (
	select old.*, x.seq as ended_seq, coalesce(x.last, true) as is_last, x.step as ended_step,
		coalesce(x.step = old.current_step and x.attempt = old.current_attempt and x.iteration = coalesce(old.current_iteration, ''), false) as was_current,
		coalesce(x.started, '') as started
	from u join old on old.ord = u.ord left join x on x.ord = u.ord
), s as (
	insert into courier.step_executions (execution_id, seq, started_at, ended_at, bytes, execution_attempt, step, attempt, state,
		type, step_id, worker, iteration, total, outputs, files, reason, error)
	select w.id, x.seq,
		case when x.started <> '' then x.started::timestamptz when w.was_current then w.current_started else clock.now end,
		clock.now, x.bytes, w.attempt, x.step, x.attempt, x.state, x.type, nullif(x.step_id, ''), w.worker,
		nullif(x.iteration, ''), nullif(x.total, ''), nullif(x.outputs, ''), nullif(x.files, ''), nullif(x.reason, ''), nullif(x.error, '')
	from clock, w join x on x.ord = w.ord and x.seq = w.ended_seq
), a as (
	insert into courier.job_audit_log (execution_id, seq, at, ended_step, ended_attempt, ended_began, ended_elapsed,
		started_step, started_attempt, started_type, started_id, started_iteration,
		interrupted, state_from, state_to, state_elapsed, reason, error, by, worker)
	select w.id, coalesce(w.ended_seq, ($3::bigint[])[w.ord]), clock.now, w.ended_step,
		case when w.ended_seq is not null then w.attempt end,
		case when w.ended_seq is not null then w.was_current end,
		case when w.was_current and w.started <> '' then greatest(0, extract(epoch from clock.now - w.current_started) * 1000000) end,
		case when starts then ($22::int[])[w.ord] end,
		case when starts then ($23::int[])[w.ord] end,
		case when starts then nullif(($25::text[])[w.ord], '') end,
		case when starts then nullif(($24::text[])[w.ord], '') end,
		case when starts then nullif(($26::text[])[w.ord], '') end,
		case when w.is_last and ($15::bool[])[w.ord] and w.current_step is not null then json_build_object('step', w.current_step, 'id', w.current_id,
			'type', w.current_type, 'iteration', w.current_iteration::json, 'attempt', w.current_attempt,
			'elapsed', greatest(0, extract(epoch from clock.now - w.current_started) * 1000000)::bigint)::text end,
		case when moves then 'running' end,
		case when moves then ($5::text[])[w.ord] end,
		case when moves then greatest(0, extract(epoch from clock.now - w.state_since) * 1000000) end,
		case when moves then nullif(($17::text[])[w.ord], '') end,
		case when moves then nullif(($18::text[])[w.ord], '') end,
		case when moves and (($5::text[])[w.ord] = 'paused' and w.request = 'pause' or ($5::text[])[w.ord] = 'cancelled' and w.request = 'cancel')
			then nullif(w.requested_by, '') end,
		case when w.ended_seq is null then w.worker end
	from clock, w
	cross join lateral (
		select w.is_last and ($22::int[])[w.ord] >= 0 as starts, w.is_last and ($5::text[])[w.ord] <> 'running' as moves
	) l
)
select ord from u
