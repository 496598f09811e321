-- Writes what a request about kept files makes of an execution that sql/request/lock.sql has
-- locked. The state stays, so there is no event. $1 execution, $2 the request that is
-- pending now (empty: none), $3 who asked for it, $4 why, $5 only copies, $6 workspace,
-- $7 the text of the audit entry (empty: none is written), $8 its actor.
with clock as materialized (
	select clock_timestamp() as now
), before as materialized (
	select e.state_since from courier.job_executions e where e.id = $1::text::uuid
), after as (
	update courier.job_executions e set
		request = nullif($2::text, ''),
		requested_by = case when $2::text <> '' then $3::text end,
		requested_at = clock.now,
		request_reason = $4::text,
		state_since = case when $7::text <> '' then clock.now else e.state_since end,
		only_copies = $5::text,
		workspace = $6::text,
		last_audit_seq = e.last_audit_seq + ($7::text <> '')::int
	from clock where e.id = $1::text::uuid
	returning e.*
), history as (
	insert into courier.execution_history (execution_id, seq, at, execution_attempt, state_from, state_to, state_elapsed_us, state_error, by)
	select e.id, e.last_audit_seq, clock.now, e.attempt, e.state, e.state,
		greatest(0, extract(epoch from clock.now - b.state_since) * 1000000::numeric), $7::text, nullif($8::text, '')
	from after e, clock, before b where $7::text <> ''
)
select
\ir ../execution/read_columns.inc.sql
from after e
