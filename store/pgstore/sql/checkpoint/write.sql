-- Writes checkpoints: transitions of running executions, at most one for each
-- execution, in the order of their ids. A transition is written if its conditions hold
-- (lease token, audit number, requests). Returned are the ordinals of those that were
-- written, and whether executions of other jobs may wait for the one that has ended.
--
-- The row is read first and then updated at its place (ctid). So its old values are
-- known, which RETURNING does not have, and no plan can scan the table. If the row has
-- changed in between, its place is another, and the transition is not written.
--
-- Values are taken from the arrays by subscript: unnest with many arguments costs more
-- than all else, and an UPDATE copies every row that it is joined with.
--
-- While nobody has subscribed to events, none are kept, and nothing is written as soon
-- as somebody has; see sql/delivery/keep_events.inc.sql.
--
-- Transitions: $1 execution, $2 token, $3 seq, $4 number of the last entry
-- but for that of an interrupt,
-- $5 state, $6 delay in microseconds, $7 position, $8 its loops, $9 counters,
-- $10 reclaims, $11 resumed from, $12 request carried out, $13 passes a pause,
-- $14 passes a cancel, $15 interrupt, $16 failure, $17 its reason, $18 its
-- message, $19 retry of the job, $20 workspace, $21 disk; what starts: $22 step
-- (-1: nothing), $23 attempt, $24 id, $25 type, $26 iteration, $27 totals.
-- Ended attempts: $28 ordinal of the transition, $29 whether it is that
-- transition's last, $30 seq, $31 step, $32 attempt, $33 state, $34 type, $35 id,
-- $36 iteration, $37 totals, $38 started (empty: as the store knows), $39 bytes,
-- $40 outputs, $41 files, $42 reason, $43 error; $44 the chain execution that is locked
-- (empty: none), as that of a member must be when it ends; $45 worker of the ended
-- attempt (empty: the holder of the lease), $48 its loop whose item failed, plus 1 (0:
-- none), $49 its stack, $50 its log, $51 its events. Of transitions: $46 failed items,
-- plus 1 (0: unchanged), $47 repairs (empty: unchanged), $52 result, $53 progress,
-- $54 only copies. Empty text is null; an
-- array in which all would be, or 0, may be empty.
with u as (
	update courier.job_executions e set
		due_at = case when old.state_to = 'queued' then old.now + ($6::bigint[])[old.ord] * interval '1 microsecond' else e.due_at end,
		state = old.state_to,
		state_since = case when old.state_to = 'running' then e.state_since else old.now end,
		attempt = case when ($19::bool[])[old.ord] then e.attempt + 1 else e.attempt end,
		resumed_from_state = nullif(($11::text[])[old.ord], ''),
		failed_items = case when ($19::bool[])[old.ord] then 0 else coalesce(nullif(($46::int[])[old.ord], 0) - 1, e.failed_items) end,
		repairs = case when ($47::text[])[old.ord] <> '' then nullif(($47::text[])[old.ord], '{}')
			when ($19::bool[])[old.ord] and e.repairs is not null then
				json_build_object('versions', (e.repairs::json) -> 'versions', 'values', (e.repairs::json) -> 'values')::text
			else e.repairs end,
		ended_at = case when old.state_to in ('completed', 'failed', 'cancelled') then old.now end,
		failure = case when ($16::text[])[old.ord] <> '' then ($16::text[])[old.ord] when old.state_to in ('running', 'queued') then e.failure end,
		result = nullif(($52::text[])[old.ord], ''),
		workspace = case when ($20::text[])[old.ord] <> '' then ($20::text[])[old.ord] else e.workspace end,
		disk_bytes = case when ($21::bigint[])[old.ord] <> 0 then ($21::bigint[])[old.ord] else e.disk_bytes end,
		only_copies = nullif(($54::text[])[old.ord], ''),
		lease_last_seq = case when old.state_to = 'running' then e.lease_last_seq
			else ($4::bigint[])[old.ord] + (($15::bool[])[old.ord] and e.current_step is not null)::int end,
		reclaims = coalesce(($10::int[])[old.ord], 0),
		request = case when old.state_to = 'running' then e.request end,
		requested_by = case when old.state_to = 'running' then e.requested_by end,
		heartbeat_at = case when old.state_to = 'running' then e.heartbeat_at end,
		lease_expires_at = case when old.state_to = 'running' then e.lease_expires_at end,
		progress = nullif(($53::text[])[old.ord], ''),
		last_audit_seq = ($4::bigint[])[old.ord] + (($15::bool[])[old.ord] and e.current_step is not null)::int,
		step = ($7::int[])[old.ord],
		loops = nullif(($8::text[])[old.ord], ''),
		retry_state = nullif(($9::text[])[old.ord], ''),
		current_step = nullif(($22::int[])[old.ord], -1),
		current_attempt = case when ($22::int[])[old.ord] >= 0 then ($23::int[])[old.ord] end,
		current_started_at = case when ($22::int[])[old.ord] >= 0 then old.now end,
		current_step_id = nullif(($24::text[])[old.ord], ''),
		current_step_type = nullif(($25::text[])[old.ord], ''),
		current_iteration = nullif(($26::text[])[old.ord], ''),
		current_iteration_total = nullif(($27::text[])[old.ord], ''),
		current_lost_worker = null,
		claim_waited_us = case when old.writes then null else e.claim_waited_us end
	from (
		select t.now, t.ord, t.lease, t.state_to, r.*,
			r.current_step is not null and r.current_lost_worker is null as open,
			-- Whether there is an entry besides that of what starts, or that of what started is to be closed.
			($4::bigint[])[t.ord] - ($3::bigint[])[t.ord] + (($22::int[])[t.ord] < 0)::int > 0
				or r.current_step is not null and (r.current_lost_worker is null or ($15::bool[])[t.ord]) as writes
		from (
			select clock_timestamp() as now, t.id, t.lease, t.ord::int as ord, ($5::text[])[t.ord::int] as state_to
			from unnest((select $1::uuid[]), (select $2::uuid[])) with ordinality as t (id, lease, ord)
		) t
		cross join lateral (
			select x.ctid as place, x.id, x.lease_token, x.state, x.last_audit_seq, x.attempt, x.worker, x.state_since, x.request, x.requested_by, x.request_reason,
				x.current_step, x.current_attempt, x.current_started_at, x.current_step_id, x.current_step_type, x.current_iteration,
				x.current_lost_worker, x.claim_waited_us, x.chain_execution_id, x.has_dependents
			from courier.job_executions x where x.id = t.id limit 1
		) r
	) old
	where e.ctid = old.place and e.state = 'running'
		and old.lease_token = old.lease and old.last_audit_seq = ($3::bigint[])[old.ord] - 1
		and coalesce(($12::text[])[old.ord], '') in ('', coalesce(old.request, ''))
		and (old.request is null or old.request = 'pause' and ($13::bool[])[old.ord] or old.request = 'cancel' and ($14::bool[])[old.ord])
		and (old.chain_execution_id is null or old.state_to in ('running', 'queued') or old.chain_execution_id = nullif($44::text, '')::uuid)
\if :unsubscribed
		and not exists (select from courier.subscriptions where not disabled)
\endif
	returning old.now, old.ord, old.state_to, old.open, old.writes, e.id, old.attempt, old.worker, old.state_since, old.request, old.requested_by, old.request_reason,
		old.current_step, old.current_attempt, old.current_started_at, old.current_step_id, old.current_step_type, old.current_iteration, old.claim_waited_us, old.has_dependents,
		e.last_audit_seq, e.current_step as next_step, e.current_attempt as next_attempt, e.current_step_type as next_type, e.current_step_id as next_id,
		e.current_iteration as next_iteration
), w as materialized (
	select u.*, x.n, x.n is null or ($29::bool[])[x.n] as is_last, x.n is null or ($30::bigint[])[x.n] = ($3::bigint[])[u.ord] as is_first,
		x.n is not null and ($31::int[])[x.n] = u.current_step and ($32::int[])[x.n] = u.current_attempt
			and coalesce(($36::text[])[x.n], '') = coalesce(u.current_iteration, '') as was_current
	from u left join (select ord, n::int as n from unnest((select $28::int[])) with ordinality as x (ord, n)) x on x.ord = u.ord
	where u.writes
), history as (
	insert into courier.execution_history (execution_id, seq, at, execution_attempt, worker, state_from, state_to, state_elapsed_us, state_reason, state_error, by,
		claimed_at, claim_waited_us, start_before, started,
		started_at, bytes, step, attempt, state, step_type, step_id, began, elapsed_us, step_worker,
		iteration, iteration_total, outputs, files, reason, error, failed_loop, stack, log, events, interrupted)
	select w.id, coalesce(($30::bigint[])[w.n], ($3::bigint[])[w.ord]), w.now, w.attempt, w.worker,
		case when moves then 'running' end,
		case when moves then w.state_to end,
		case when moves then greatest(0, extract(epoch from w.now - w.state_since) * 1000000) end,
		case when moves then nullif(($17::text[])[w.ord], '') end,
		case when moves then coalesce(nullif(($18::text[])[w.ord], ''), case when carries_out and w.requested_by <> '' then nullif(w.request_reason, '') end) end,
		case when moves and carries_out then nullif(w.requested_by, '') end,
		case when w.is_first and w.claim_waited_us is not null then w.state_since end,
		case when w.is_first then w.claim_waited_us end,
		case when (w.was_current or interrupts) and not (w.open and w.is_first) then true end,
		case when w.open and w.is_first and not (w.was_current or interrupts) then json_build_object('step', w.current_step, 'id', w.current_step_id,
			'type', w.current_step_type, 'iteration', w.current_iteration::json, 'attempt', w.current_attempt, 'at', w.current_started_at)::text end,
		case when w.n is null then null when ($38::text[])[w.n] <> '' then ($38::text[])[w.n]::timestamptz when w.was_current then w.current_started_at else w.now end,
		nullif(($39::bigint[])[w.n], 0),
		($31::int[])[w.n], ($32::int[])[w.n], nullif(($33::text[])[w.n], 'completed'), ($34::text[])[w.n], nullif(($35::text[])[w.n], ''),
		case when w.n is not null then w.was_current end,
		case when w.was_current and ($38::text[])[w.n] <> '' then greatest(0, extract(epoch from w.now - w.current_started_at) * 1000000) end,
		nullif(($45::text[])[w.n], ''), nullif(($36::text[])[w.n], ''), nullif(($37::text[])[w.n], ''),
		nullif(($40::text[])[w.n], ''), nullif(($41::text[])[w.n], ''), nullif(($42::text[])[w.n], ''), nullif(($43::text[])[w.n], ''),
		nullif(($48::int[])[w.n], 0) - 1, nullif(($49::text[])[w.n], ''), nullif(($50::text[])[w.n], ''), nullif(($51::text[])[w.n], ''),
		case when interrupts then json_build_object('step', w.current_step, 'id', w.current_step_id,
			'type', w.current_step_type, 'iteration', w.current_iteration::json, 'attempt', w.current_attempt,
			'elapsed', greatest(0, extract(epoch from w.now - w.current_started_at) * 1000000)::bigint)::text end
	from (select *, is_last and ($15::bool[])[ord] and current_step is not null as interrupts, is_last and state_to <> 'running' as moves,
		state_to = 'paused' and request = 'pause' or state_to = 'cancelled' and request = 'cancel' as carries_out from w) w
\if :subscribed
	returning *
\else
\if :files
	returning execution_id, seq, files
\endif
\endif
)
\if :files
\ir ../trail/keep_files.inc.sql
\endif
\if :subscribed
\set starts true
\set failures true
\ir ../delivery/keep_events.inc.sql
\endif
select ord, coalesce(has_dependents, false) and state_to in ('completed', 'failed', 'cancelled') from u
