-- Writes what most transitions are, in the same way as sql/apply.sql but with
-- less to decide, since starting a statement costs as much as many rows: the
-- execution goes on or is completed, at most one attempt ended, which is the
-- present one, nobody has asked for anything, and no member of a chain ends. What
-- is more than that is not written and left to sql/apply.sql. Returned are the
-- ordinals of what was, and whether others may wait for what has ended.
--
-- $1 execution, $2 token, $3 seq, $4 number of the last entry, $5 state,
-- $6 position, $7 its loops, $8 marks, $9 reclaims, $10 workspace, $11 disk; what
-- starts: $12 step (-1: nothing), $13 attempt, $14 id, $15 type, $16 iteration,
-- $17 totals; what ended: $18 step (-1: nothing), $19 attempt, $20 state, $21 type,
-- $22 id, $23 iteration, $24 totals, $25 bytes, $26 outputs, $27 files, $28 reason,
-- $29 error. Empty text is null; an array in which all would be, or 0, may be empty.
with u as (
	update courier.job_executions e set
		state = old.state_to,
		state_since = case when old.state_to = 'running' then e.state_since else old.now end,
		ended_at = case when old.state_to <> 'running' then old.now end,
		workspace = case when ($10::text[])[old.ord] <> '' then ($10::text[])[old.ord] else e.workspace end,
		disk_bytes = case when ($11::bigint[])[old.ord] <> 0 then ($11::bigint[])[old.ord] else e.disk_bytes end,
		lease_last = case when old.state_to = 'running' then e.lease_last else ($4::bigint[])[old.ord] end,
		reclaims = coalesce(($9::int[])[old.ord], 0),
		lease_expires_at = case when old.state_to = 'running' then e.lease_expires_at end,
		seq = ($4::bigint[])[old.ord],
		step = ($6::int[])[old.ord],
		loops = nullif(($7::text[])[old.ord], ''),
		marks = nullif(($8::text[])[old.ord], ''),
		current_step = nullif(($12::int[])[old.ord], -1),
		current_attempt = nullif(($13::int[])[old.ord], 0),
		current_started = case when ($12::int[])[old.ord] >= 0 then old.now end,
		current_id = nullif(($14::text[])[old.ord], ''),
		current_type = nullif(($15::text[])[old.ord], ''),
		current_iteration = nullif(($16::text[])[old.ord], ''),
		current_total = nullif(($17::text[])[old.ord], '')
	from (
		select t.now, t.ord, t.lease, t.state_to, r.*
		from (
			select clock_timestamp() as now, t.id, t.lease, t.ord::int as ord, ($5::text[])[t.ord::int] as state_to
			from unnest((select $1::uuid[]), (select $2::uuid[])) with ordinality as t (id, lease, ord)
		) t
		cross join lateral (
			select x.ctid as place, x.token, x.seq, x.attempt, x.worker, x.state_since,
				x.current_step, x.current_attempt, x.current_started, x.current_iteration, x.chain_id, x.upstream
			from courier.job_executions x where x.id = t.id limit 1
		) r
	) old
	where e.ctid = old.place and e.state = 'running'
		and old.token = old.lease and old.seq = ($3::bigint[])[old.ord] - 1
		and coalesce(old.current_step, -1) = ($18::int[])[old.ord] and coalesce(old.current_attempt, 0) = ($19::int[])[old.ord]
		and coalesce(old.current_iteration, '') = coalesce(($23::text[])[old.ord], '')
		and e.request is null and e.current_worker is null and e.resumed_from is null and e.failure is null
		and (old.chain_id is null or old.state_to = 'running')
		/* unless subscribed */
	returning old.now, old.ord, old.state_to, e.id, old.attempt, old.worker, old.state_since,
		old.current_step, old.current_attempt, old.current_started, old.current_iteration, old.upstream
), ended as (
	insert into courier.step_executions (execution_id, seq, started_at, ended_at, bytes, execution_attempt, step, attempt, state,
		type, step_id, worker, iteration, total, outputs, files, reason, error)
	select u.id, ($3::bigint[])[u.ord], u.current_started, u.now, coalesce(($25::bigint[])[u.ord], 0), u.attempt, u.current_step, u.current_attempt,
		($20::text[])[u.ord], ($21::text[])[u.ord], nullif(($22::text[])[u.ord], ''), u.worker, u.current_iteration,
		nullif(($24::text[])[u.ord], ''), nullif(($26::text[])[u.ord], ''), nullif(($27::text[])[u.ord], ''),
		nullif(($28::text[])[u.ord], ''), nullif(($29::text[])[u.ord], '')
	from u where u.current_step is not null
	/* returning execution_id, seq, ended_at, state, step, step_id, type, iteration, attempt, bytes, reason, error */
), audit as (
	insert into courier.job_audit_log (execution_id, seq, at, ended_step, ended_attempt, ended_began,
		started_step, started_attempt, started_type, started_id, started_iteration, state_from, state_to, state_elapsed, worker)
	select u.id, ($3::bigint[])[u.ord], u.now,
		u.current_step, case when u.current_step is not null then u.attempt end, case when u.current_step is not null then true end,
		nullif(($12::int[])[u.ord], -1), nullif(($13::int[])[u.ord], 0),
		nullif(($15::text[])[u.ord], ''), nullif(($14::text[])[u.ord], ''), nullif(($16::text[])[u.ord], ''),
		case when u.state_to <> 'running' then 'running' end, case when u.state_to <> 'running' then u.state_to end,
		case when u.state_to <> 'running' then greatest(0, extract(epoch from u.now - u.state_since) * 1000000) end,
		case when u.current_step is null then u.worker end
	from u
	/* returning execution_id, seq, at, ended_step, interrupted, started_step, started_id, started_type, started_iteration, started_attempt, state_from, state_to, reason, error, by */
) /* outbox */
select ord, coalesce(upstream, false) and state_to <> 'running' from u
