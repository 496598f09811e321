-- Writes most checkpoints, in the same way as sql/checkpoint/write.sql but with less to
-- decide, because the start of a statement costs as much as many rows. It writes a
-- transition if the execution goes on or is completed, at most one step attempt has
-- completed, which is the current one, no cursor is handed on, there is no request, and no
-- member of a chain ends. The others are left to write.sql. Returned are the ordinals of those that were
-- written, and whether executions of other jobs may wait for the one that has ended.
--
-- An element of an array of texts is found by passing over all before it. So texts
-- that many transitions share are sent once, in $8, and stand elsewhere as
-- subscripts of that, of which 0 is null.
--
-- $1 execution, $2 token, $3 seq, $4 number of the last entry, $5 whether it is
-- completed, $6 position, $7 its loops, $8 texts, $9 counters (one of them), $10 reclaims,
-- $11 workspace (one of the texts), $12 disk; what starts: $13 step (-1: nothing),
-- $14 attempt, $15 id and $16 type (texts), $17 iteration, $18 totals (a text); what
-- ended: $19 step (-1: nothing), $20 attempt, $21 iteration, $22 bytes, $23 outputs,
-- $24 files, $25 type, $26 id and $27 totals (texts), $28 log, $29 events; $30
-- whether events are kept, as in write.sql. Empty text is null; an array in which all would
-- be, or 0, may be empty.
with u as (
	update courier.job_executions e set
		state = case when old.ends then 'completed' else 'running' end,
		state_since = case when old.ends then old.now else e.state_since end,
		ended_at = case when old.ends then old.now end,
		workspace = coalesce(($8::text[])[($11::int[])[old.ord]], e.workspace),
		disk_bytes = coalesce(nullif(($12::bigint[])[old.ord], 0), e.disk_bytes),
		lease_last_seq = case when old.ends then ($4::bigint[])[old.ord] else e.lease_last_seq end,
		reclaims = coalesce(($10::int[])[old.ord], 0),
		heartbeat_at = case when not old.ends then e.heartbeat_at end,
		lease_expires_at = case when not old.ends then e.lease_expires_at end,
		progress = null,
		last_audit_seq = ($4::bigint[])[old.ord],
		step = ($6::int[])[old.ord],
		loops = nullif(($7::text[])[old.ord], ''),
		retry_state = ($8::text[])[($9::int[])[old.ord]],
		current_step = nullif(($13::int[])[old.ord], -1),
		current_attempt = nullif(($14::int[])[old.ord], 0),
		current_started_at = case when ($13::int[])[old.ord] >= 0 then old.now end,
		current_step_id = ($8::text[])[($15::int[])[old.ord]],
		current_step_type = ($8::text[])[($16::int[])[old.ord]],
		current_iteration = nullif(($17::text[])[old.ord], ''),
		current_iteration_total = ($8::text[])[($18::int[])[old.ord]],
		claim_waited_us = case when old.current_step is null and not old.ends then e.claim_waited_us end
	from (
		select t.now, t.ord, t.lease, t.ends, r.*
		from (
			select clock_timestamp() as now, t.id, t.lease, t.ord::int as ord, ($5::bool[])[t.ord::int] as ends
			from unnest((select $1::uuid[]), (select $2::uuid[])) with ordinality as t (id, lease, ord)
		) t
		cross join lateral (
			select x.ctid as place, x.lease_token, x.last_audit_seq, x.attempt, x.worker, x.state_since, x.current_step, x.current_attempt,
				x.current_started_at, x.current_iteration, x.claim_waited_us, x.chain_execution_id, x.has_dependents
			from courier.job_executions x where x.id = t.id limit 1
		) r
	) old
	where e.ctid = old.place and e.state = 'running'
		and old.lease_token = old.lease and old.last_audit_seq = ($3::bigint[])[old.ord] - 1
		and coalesce(old.current_step, -1) = ($19::int[])[old.ord] and coalesce(old.current_attempt, 0) = ($20::int[])[old.ord]
		and coalesce(old.current_iteration, '') = coalesce(($21::text[])[old.ord], '')
		and e.request is null and e.current_lost_worker is null and e.resumed_from_state is null and e.failure is null
		and (old.chain_execution_id is null or not old.ends)
		and ($30::bool or not exists (select from courier.subscriptions where not disabled))
	returning old.now, old.ord, old.ends, e.id, old.attempt, old.worker, old.state_since,
		old.current_step, old.current_attempt, old.current_started_at, old.current_iteration, old.claim_waited_us, old.has_dependents
), history as (
	insert into courier.execution_history (execution_id, seq, at, execution_attempt, worker, state_from, state_to, state_elapsed_us, claimed_at, claim_waited_us,
		started_at, bytes, step, attempt, step_type, step_id, began, iteration, iteration_total, outputs, files, log, events)
	select u.id, ($3::bigint[])[u.ord], u.now, u.attempt, u.worker,
		case when u.ends then 'running' end, case when u.ends then 'completed' end,
		case when u.ends then greatest(0, extract(epoch from u.now - u.state_since) * 1000000::numeric) end,
		case when u.claim_waited_us is not null then u.state_since end, u.claim_waited_us,
		u.current_started_at, nullif(($22::bigint[])[u.ord], 0), u.current_step, u.current_attempt,
		($8::text[])[($25::int[])[u.ord]], ($8::text[])[($26::int[])[u.ord]],
		case when u.current_step is not null then true end, u.current_iteration, ($8::text[])[($27::int[])[u.ord]],
		nullif(($23::text[])[u.ord], ''), nullif(($24::text[])[u.ord], ''), nullif(($28::text[])[u.ord], ''), nullif(($29::text[])[u.ord], '')
	from u where u.current_step is not null or u.ends
)
select ord, coalesce(has_dependents, false) and ends from u
