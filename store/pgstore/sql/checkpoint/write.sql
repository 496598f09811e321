-- Writes checkpoints: transitions of running executions, at most one for each
-- execution, in the order of their ids. A transition is written if its conditions hold
-- (lease token, audit number, requests). Returned are the ordinals of those that were
-- written, and whether executions of other jobs may wait for the one that has ended.
--
-- $1 transitions and $2 the step attempts that end with them, as JSON arrays, whose fields are
-- the columns of t and of a below: transitionRow and attemptRow in apply_args.go say what they
-- hold. What is left out is null. $3 texts that may be large, to which the rows refer by
-- subscript. $4 the chain execution that is locked, as that of a member must be when
-- it ends (empty: none). $5 whether events are kept, by sql/delivery/keep_events.sql; without
-- that, nothing is written if somebody has subscribed. sql/trail/keep.sql keeps the
-- trail of what this statement has written.
--
-- The row is read first and then updated at its place (ctid). So its old values are
-- known, which RETURNING does not have, and no plan can scan the table. If the row has
-- changed in between, its place is another, and the transition is not written.
with t as materialized (
	select t.*, clock_timestamp() as now from json_to_recordset($1::json) as t (ord int, execution uuid, lease uuid, seq bigint, last bigint, state_to text,
		delay_us bigint, step int, loops text, counters text, reclaims int, resumed_from text, answers text, passes_pause bool, passes_cancel bool, passes_abort bool, aborts bool, keeps_pause bool, interrupts bool,
		failure text, reason text, message text, retries_job bool, workspace text, disk_bytes bigint, failed_items int, repairs text, result int, progress text,
		only_copies text, starts int, start_attempt int, start_id text, start_type text, start_iteration text, start_total text,
		finish text, in_finally bool, finally_error text, by text, pause_text text)
), a as materialized (
	select a.* from json_to_recordset($2::json) as a (ord int, is_last bool, seq bigint, step int, attempt int, state text, type text, id text, iteration text, total text,
		started_at timestamptz, bytes bigint, worker text, reason text, failed_loop int, error int, outputs int, files int, stack int, log int, events int, item_labels text, rescued bool)
), u as (
	update courier.job_executions e set
		due_at = case when old.state_to = 'queued' then old.now + coalesce(old.delay_us, 0)::float8 * interval '1 microsecond' else e.due_at end,
		state = old.state_to,
		state_since = case when old.state_to = 'running' and old.finish is null then e.state_since else old.now end,
		attempt = case when old.retries_job then e.attempt + 1 else e.attempt end,
		resumed_from_state = old.resumed_from,
		failed_items = case when old.retries_job then 0 else coalesce(old.new_failed_items, e.failed_items) end,
		repairs = case when old.new_repairs is not null then nullif(old.new_repairs, '{}')
			when old.retries_job and e.repairs is not null then
				pg_catalog.json_build_object('versions', (e.repairs::json) -> 'versions'::text, 'values', (e.repairs::json) -> 'values'::text)::text
			else e.repairs end,
		ended_at = case when old.state_to in ('completed', 'failed', 'cancelled') then old.now end,
		failure = case when old.in_finally and old.state_to in ('running', 'queued') then e.failure
			when old.new_failure is not null then old.new_failure when old.state_to in ('running', 'queued') and old.finish is null then e.failure end,
		result = case when old.in_finally then e.result else ($3::text[])[old.new_result] end,
		finishing = case when old.state_to in ('completed', 'failed', 'cancelled') then null else coalesce(old.finish, e.finishing) end,
		finally_error = case when old.state_to in ('completed', 'failed', 'cancelled') then old.new_finally_error else e.finally_error end,
		timeout_started_at = case when old.finish is not null then old.now else e.timeout_started_at end,
		workspace = coalesce(old.new_workspace, e.workspace),
		disk_bytes = coalesce(old.new_disk_bytes, e.disk_bytes),
		only_copies = old.new_only_copies,
		lease_last_seq = case when old.state_to = 'running' then e.lease_last_seq else old.last_seq end,
		reclaims = coalesce(old.new_reclaims, 0),
		request = case when old.state_to = 'running' and old.finish is null or old.keeps_pause and e.request = 'pause' then e.request end,
		requested_by = case when old.state_to = 'running' and old.finish is null or old.keeps_pause and e.request = 'pause' then e.requested_by end,
		heartbeat_at = case when old.state_to = 'running' then e.heartbeat_at end,
		lease_expires_at = case when old.state_to = 'running' then e.lease_expires_at end,
		progress = old.new_progress,
		last_audit_seq = old.last_seq,
		step = old.new_step,
		loops = old.new_loops,
		retry_state = old.new_counters,
		current_step = old.starts,
		current_attempt = old.start_attempt,
		current_started_at = case when old.starts is not null then old.now end,
		current_step_id = old.start_id,
		current_step_type = old.start_type,
		current_iteration = old.start_iteration,
		current_iteration_total = old.start_total,
		current_lost_worker = null,
		claim_waited_us = case when old.writes then null else e.claim_waited_us end
	from (
		select t.ord, t.now, t.lease, t.seq, t.state_to, t.delay_us, t.resumed_from, t.answers, t.passes_pause, t.passes_cancel, t.passes_abort, t.keeps_pause, t.retries_job,
			t.finish, coalesce(t.in_finally, false) as in_finally, t.finally_error as new_finally_error,
			t.failed_items as new_failed_items, t.repairs as new_repairs, t.failure as new_failure, t.result as new_result, t.workspace as new_workspace,
			t.disk_bytes as new_disk_bytes, t.only_copies as new_only_copies, t.reclaims as new_reclaims, t.progress as new_progress, t.step as new_step,
			t.loops as new_loops, t.counters as new_counters, t.starts, t.start_attempt, t.start_id, t.start_type, t.start_iteration, t.start_total,
			r.*, t.last + (t.interrupts and r.current_step is not null)::int as last_seq,
			-- Whether what started is not in the history yet.
			r.current_step is not null and r.current_lost_worker is null as open,
			-- Whether there is an entry besides that of what starts, or that of what started is to be closed.
			t.last - t.seq + (t.starts is null)::int > 0 or r.current_step is not null and (r.current_lost_worker is null or t.interrupts) as writes
		from t
		cross join lateral (
			select x.ctid as place, x.id, x.lease_token, x.state, x.last_audit_seq, x.attempt, x.worker, x.state_since, x.request, x.requested_by, x.request_reason,
				x.current_step, x.current_attempt, x.current_started_at, x.current_step_id, x.current_step_type, x.current_iteration,
				x.current_lost_worker, x.claim_waited_us, x.chain_execution_id, x.has_dependents
			from courier.job_executions x where x.id = t.execution limit 1
		) r
	) old
	where e.ctid = old.place and e.state = 'running'
		and old.lease_token = old.lease and old.last_audit_seq = old.seq - 1
		and (old.answers is null or old.answers = old.request)
		and (old.request is null or old.request = 'pause' and old.passes_pause or old.request = 'cancel' and old.passes_cancel
			or old.request = 'abort' and old.passes_abort)
		and (old.chain_execution_id is null or old.state_to in ('running', 'queued') or old.chain_execution_id = nullif($4::text, '')::uuid)
		and ($5::bool or not exists (select from courier.subscriptions where not disabled))
	returning old.ord, old.open, old.writes, old.attempt, old.worker, old.state_since, old.request, old.requested_by, old.request_reason,
		old.current_step, old.current_attempt, old.current_started_at, old.current_step_id, old.current_step_type, old.current_iteration, old.claim_waited_us, old.has_dependents
), w as materialized (
	-- A row of the history for each attempt that has ended, or one for a transition without any.
	select u.*, t.execution, t.now, t.seq, t.state_to, t.reason, t.message, a.ord is not null as ended, coalesce(a.seq, t.seq) = t.seq as is_first,
		a.seq as ended_seq, a.step, a.attempt as step_attempt, a.state, a.type, a.id, a.iteration, a.total, a.started_at, a.bytes, a.worker as step_worker, a.reason as step_reason,
		a.failed_loop, a.error, a.outputs, a.files, a.stack, a.log, a.events, a.item_labels, a.rescued,
		a.step = u.current_step and a.attempt = u.current_attempt and coalesce(a.iteration, '') = coalesce(u.current_iteration, '') as was_current,
		coalesce(a.is_last, a.ord is null) and t.interrupts and u.current_step is not null as interrupted,
		coalesce(a.is_last, a.ord is null) and (t.state_to <> 'running' or t.finish is not null) as moves,
		t.by as given_by, case when u.request = 'pause' then t.pause_text || coalesce(u.requested_by, '') end as dropped,
		t.state_to = 'paused' and u.request = 'pause' or u.request = 'cancel' and (t.finish is not null or t.state_to = 'cancelled' and not coalesce(t.in_finally, false))
			or u.request = 'abort' and t.aborts as carries_out
	from u join t on t.ord = u.ord left join a on a.ord = u.ord
	where u.writes
), history as (
	insert into courier.execution_history (execution_id, seq, at, execution_attempt, worker, state_from, state_to, state_elapsed_us, state_reason, state_error, by,
		claimed_at, claim_waited_us, start_before, started,
		started_at, bytes, step, attempt, state, step_type, step_id, began, elapsed_us, step_worker,
		iteration, iteration_total, outputs, files, reason, error, failed_loop, stack, log, events, item_labels, rescued, interrupted)
	select w.execution, coalesce(w.ended_seq, w.seq), w.now, w.attempt, w.worker,
		case when w.moves then 'running' end,
		case when w.moves then w.state_to end,
		case when w.moves then greatest(0, extract(epoch from w.now - w.state_since) * 1000000::numeric) end,
		case when w.moves then w.reason end,
		case when w.moves then nullif(pg_catalog.concat_ws('; ', coalesce(w.message, case when w.carries_out and w.requested_by <> '' then nullif(w.request_reason, '') end), w.dropped), '') end,
		case when w.moves then coalesce(case when w.carries_out then nullif(w.requested_by, '') end, w.given_by) end,
		case when w.is_first and w.claim_waited_us is not null then w.state_since end,
		case when w.is_first then w.claim_waited_us end,
		case when (w.was_current or w.interrupted) and not (w.open and w.is_first) then true end,
		case when w.open and w.is_first and not (coalesce(w.was_current, false) or w.interrupted) then pg_catalog.json_build_object('step', w.current_step, 'id', w.current_step_id,
			'type', w.current_step_type, 'iteration', w.current_iteration::json, 'attempt', w.current_attempt, 'at', w.current_started_at)::text end,
		case when w.ended then coalesce(w.started_at, case when w.was_current then w.current_started_at else w.now end) end,
		w.bytes, w.step, w.step_attempt, nullif(w.state, 'completed'), w.type, w.id,
		case when w.ended then w.was_current end,
		case when w.was_current and w.started_at is not null then greatest(0, extract(epoch from w.now - w.current_started_at) * 1000000::numeric) end,
		w.step_worker, w.iteration, w.total, ($3::text[])[w.outputs], ($3::text[])[w.files], w.step_reason, ($3::text[])[w.error],
		w.failed_loop, ($3::text[])[w.stack], ($3::text[])[w.log], ($3::text[])[w.events], w.item_labels, w.rescued,
		case when w.interrupted then pg_catalog.json_build_object('step', w.current_step, 'id', w.current_step_id,
			'type', w.current_step_type, 'iteration', w.current_iteration::json, 'attempt', w.current_attempt,
			'elapsed', greatest(0, extract(epoch from w.now - w.current_started_at) * 1000000::numeric)::bigint)::text end
	from w
)
select u.ord, coalesce(u.has_dependents, false) and t.state_to in ('completed', 'failed', 'cancelled') from u join t on t.ord = u.ord
