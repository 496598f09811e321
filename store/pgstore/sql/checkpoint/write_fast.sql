-- Writes most checkpoints, in the same way as sql/checkpoint/write.sql but with less to
-- decide, because the start of a statement costs as much as many rows. It writes a
-- transition if the execution goes on or is completed, at most one step attempt has
-- completed, which is the current one, no cursor is handed on, there is no request, and no
-- member of a chain ends. The others are left to write.sql. Returned are the ordinals of those that were
-- written, and whether executions of other jobs may wait for the one that has ended.
--
-- $1 transitions, each with the attempt that ends with it, as a JSON array: the columns of t
-- are fields of progressRow in apply_args.go. What is left out is null. $2 whether events
-- are kept, as in write.sql.
with t as materialized (
	select t.*, clock_timestamp() as now from json_to_recordset($1::json) as t (ord int, execution uuid, lease uuid, seq bigint, last bigint, state_to text,
		step int, loops text, counters text, reclaims int, workspace text, disk_bytes bigint,
		starts int, start_attempt int, start_id text, start_type text, start_iteration text, start_total text,
		ended_step int, ended_attempt int, ended_id text, ended_type text, ended_iteration text, ended_total text, bytes bigint, outputs text, files text, log text, events text)
), u as (
	update courier.job_executions e set
		state = old.state_to,
		state_since = case when old.ends then old.now else e.state_since end,
		ended_at = case when old.ends then old.now end,
		workspace = coalesce(old.new_workspace, e.workspace),
		disk_bytes = coalesce(old.new_disk_bytes, e.disk_bytes),
		lease_last_seq = case when old.ends then old.last else e.lease_last_seq end,
		reclaims = coalesce(old.new_reclaims, 0),
		heartbeat_at = case when not old.ends then e.heartbeat_at end,
		lease_expires_at = case when not old.ends then e.lease_expires_at end,
		progress = null,
		last_audit_seq = old.last,
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
		claim_waited_us = case when old.current_step is null and not old.ends then e.claim_waited_us end
	from (
		select t.ord, t.now, t.lease, t.seq, t.last, t.state_to, t.state_to = 'completed' as ends, t.step as new_step, t.loops as new_loops, t.counters as new_counters,
			t.reclaims as new_reclaims, t.workspace as new_workspace, t.disk_bytes as new_disk_bytes,
			t.starts, t.start_attempt, t.start_id, t.start_type, t.start_iteration, t.start_total, t.ended_step, t.ended_attempt, t.ended_iteration, r.*
		from t
		cross join lateral (
			select x.ctid as place, x.lease_token, x.last_audit_seq, x.attempt, x.worker, x.state_since, x.current_step, x.current_attempt,
				x.current_started_at, x.current_iteration, x.claim_waited_us, x.chain_execution_id, x.has_dependents
			from courier.job_executions x where x.id = t.execution limit 1
		) r
	) old
	where e.ctid = old.place and e.state = 'running'
		and old.lease_token = old.lease and old.last_audit_seq = old.seq - 1
		and coalesce(old.current_step, -1) = coalesce(old.ended_step, -1) and coalesce(old.current_attempt, 0) = coalesce(old.ended_attempt, 0)
		and coalesce(old.current_iteration, '') = coalesce(old.ended_iteration, '')
		and e.request is null and e.current_lost_worker is null and e.resumed_from_state is null and e.failure is null
		and (old.chain_execution_id is null or not old.ends)
		and ($2::bool or not exists (select from courier.subscriptions where not disabled))
	returning old.ord, old.ends, old.attempt, old.worker, old.state_since,
		old.current_step, old.current_attempt, old.current_started_at, old.current_iteration, old.claim_waited_us, old.has_dependents
), history as (
	insert into courier.execution_history (execution_id, seq, at, execution_attempt, worker, state_from, state_to, state_elapsed_us, claimed_at, claim_waited_us,
		started_at, bytes, step, attempt, step_type, step_id, began, iteration, iteration_total, outputs, files, log, events)
	select t.execution, t.seq, t.now, u.attempt, u.worker,
		case when u.ends then 'running' end, case when u.ends then 'completed' end,
		case when u.ends then greatest(0, extract(epoch from t.now - u.state_since) * 1000000::numeric) end,
		case when u.claim_waited_us is not null then u.state_since end, u.claim_waited_us,
		u.current_started_at, t.bytes, u.current_step, u.current_attempt, t.ended_type, t.ended_id,
		case when u.current_step is not null then true end, u.current_iteration, t.ended_total, t.outputs, t.files, t.log, t.events
	from u join t on t.ord = u.ord where u.current_step is not null or u.ends
)
select u.ord, coalesce(u.has_dependents, false) and u.ends from u
