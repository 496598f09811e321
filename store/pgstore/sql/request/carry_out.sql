-- Carries out a request on an execution that sql/request/lock.sql has locked, and writes
-- the audit; sql/delivery/keep_events.sql, which is sent behind it, keeps the events. Nothing is returned if the version that it changes to does not exist.
-- $1 execution, $2 its new state (empty: unchanged), $3 the request that a
-- worker has to carry out (empty: none; with a new state, that is queued), $4 who asked, $5 whether it is a resume,
-- $6 retry_state after a resume, $7 the current step as JSON if it goes back to pending,
-- $8 now, if an earlier statement has asked for it, $9 whether the next attempt of the
-- execution begins, $10 the class of the reason for the audit, $11 the reason, $12 what
-- else changes, as JSON, $13 the step that was skipped, as JSON. A field that is not in the
-- JSON is unchanged or null. $14 the reason of a request that its worker has to carry
-- out, $15 the failure, as JSON, of an execution that fails by the request, $16 the only
-- copies of one that ends for good and of which they are not known.
with clock as materialized (
	select coalesce(nullif($8::text, '')::timestamptz, clock_timestamp()) as now
), change as materialized (
	select c.* from json_to_record($12::text::json) as c (version int, step_types json, concurrency_limit int, step int, loops text,
		failed_items int, repairs text, elsewhere bool, delay_us bigint, drops_progress bool, due_now bool, ends_finally bool, finally_error text)
), skip as materialized (
	select s.* from json_to_record($13::text::json) as s (step int, attempt int, step_type text, step_id text, iteration text, iteration_total text,
		bytes bigint, outputs text, files text, reason text, error text, failed_loop int, item_labels text)
	where s.step is not null
), before as materialized (
	select e.id, e.state, e.state_since, e.last_audit_seq, e.attempt, e.worker, e.claim_waited_us, e.current_step, e.current_attempt, e.current_started_at,
		e.current_step_id, e.current_step_type, e.current_iteration, e.current_step is not null and e.current_lost_worker is null as open,
		e.current_step is not null and e.current_lost_worker is not null and $7::text <> '' as start_before
	from courier.job_executions e where e.id = $1::text::uuid
), after as (
	update courier.job_executions e set
		request = nullif($3::text, ''),
		requested_by = case when $3::text <> '' then $4::text end,
		requested_at = clock.now,
		request_reason = $14::text,
		state = case when $2::text = '' then e.state else $2::text end,
		state_since = case when $2::text = '' then e.state_since else clock.now end,
		due_at = case when $5::bool then clock.now + coalesce(change.delay_us, 0)::float8 * interval '1 microsecond' when change.due_now then clock.now else e.due_at end,
		finishing = case when $2::text not in ('completed', 'failed', 'cancelled') then e.finishing end,
		finally_error = case when change.finally_error is not null then change.finally_error when not $5::bool then e.finally_error end,
		failure = case when $15::text <> '' then $15::text when not $5::bool then e.failure end,
		resumed = e.resumed or $5::bool,
		resumed_from_state = case when $9::bool then null when not $5::bool or e.resumed_from_state = 'failed' then e.resumed_from_state else e.state end,
		timeout_started_at = case when not $5::bool then e.timeout_started_at end,
		retry_state = case when $5::bool or change.ends_finally then nullif($6::text, '') else e.retry_state end,
		reclaims = case when $5::bool then 0 else e.reclaims end,
		attempt = case when $9::bool then e.attempt + 1 else e.attempt end,
		version = coalesce(change.version, e.version),
		step_types = case when change.version is null then e.step_types else array(select json_array_elements_text(change.step_types)) end,
		concurrency_limit = coalesce(change.concurrency_limit, e.concurrency_limit),
		step = coalesce(change.step, e.step),
		loops = case when change.step is null then e.loops else change.loops end,
		progress = case when not coalesce(change.drops_progress, false) then e.progress end,
		failed_items = coalesce(change.failed_items, e.failed_items),
		repairs = nullif(coalesce(change.repairs, e.repairs), '{}'),
		workspace = case when change.elsewhere then '' else e.workspace end,
		disk_bytes = case when change.elsewhere then 0 else e.disk_bytes end,
		only_copies = case when change.elsewhere then null
			when $2::text in ('cancelled', 'completed') and e.only_copies is null and e.workspace <> '' then $16::text
			else e.only_copies end,
		ended_at = case when $2::text = '' then e.ended_at when $2::text in ('completed', 'failed', 'cancelled') then clock.now end,
		lease_last_seq = case when $2::text <> '' and e.state = 'running' then e.last_audit_seq else e.lease_last_seq end,
		heartbeat_at = case when $2::text = '' then e.heartbeat_at end,
		lease_expires_at = case when $2::text = '' then e.lease_expires_at end,
		first_step_type = case when $2::text = '' then e.first_step_type end,
		first_step_id = case when $2::text = '' then e.first_step_id end,
		current_step = case when $2::text = '' then e.current_step end,
		current_attempt = case when $2::text = '' then e.current_attempt end,
		current_started_at = case when $2::text = '' then e.current_started_at end,
		current_step_id = case when $2::text = '' then e.current_step_id end,
		current_step_type = case when $2::text = '' then e.current_step_type end,
		current_iteration = case when $2::text = '' then e.current_iteration end,
		current_iteration_total = case when $2::text = '' then e.current_iteration_total end,
		current_lost_worker = case when $2::text = '' then e.current_lost_worker end,
		claim_waited_us = case when $2::text = '' then e.claim_waited_us end,
		last_audit_seq = case when $2::text = '' then e.last_audit_seq
			else e.last_audit_seq + 1 + ($7::text <> '')::int + (select count(*) from skip) end
	from clock, change
	where e.id = $1::text::uuid and (change.version is null or exists (
		select from courier.job_definition_versions v where v.definition_id = e.definition_id and v.version = change.version
	))
	returning e.*
), history as (
	insert into courier.execution_history (execution_id, seq, at, execution_attempt, state_from, state_to, state_elapsed_us, state_reason, state_error, by,
		claimed_at, claim_waited_us, start_before, started, before_worker,
		started_at, bytes, step, attempt, state, step_type, step_id, began, iteration, iteration_total, outputs, files, reason, error, failed_loop, item_labels, interrupted)
	select b.id, b.last_audit_seq + 1, clock.now, b.attempt, b.state, $2::text, greatest(0, extract(epoch from clock.now - b.state_since) * 1000000::numeric),
		nullif($10::text, ''), nullif($11::text, ''), nullif($4::text, ''),
		case when b.claim_waited_us is not null then b.state_since end, b.claim_waited_us, nullif(b.start_before, false),
		case when b.open and $7::text = '' then pg_catalog.json_build_object('step', b.current_step, 'id', b.current_step_id,
			'type', b.current_step_type, 'iteration', b.current_iteration::json, 'attempt', b.current_attempt, 'at', b.current_started_at)::text end,
		case when b.open or b.claim_waited_us is not null then b.worker end,
		case when skip.step is not null then clock.now end, nullif(skip.bytes, 0), skip.step, skip.attempt,
		case when skip.step is not null then 'skipped' end, skip.step_type, skip.step_id, case when skip.step is not null then false end,
		skip.iteration, skip.iteration_total, skip.outputs, skip.files, skip.reason, skip.error, skip.failed_loop, skip.item_labels,
		case when $7::text <> '' then jsonb_set($7::text::jsonb, '{elapsed}'::text[],
			pg_catalog.to_jsonb(greatest(0, extract(epoch from clock.now - b.current_started_at) * 1000000::numeric)::bigint))::text end
	from clock cross join before b left join skip on true where $2::text <> ''
)
select
\ir ../execution/read_columns.inc.sql
from after e
