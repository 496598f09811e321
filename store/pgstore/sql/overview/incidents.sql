-- Executions that somebody may have to look at, as JSON, as store.Incidents has them. $1 at
-- most how many of each kind, $2 of how many running ones, $3 how many of the latest
-- executions of a job are examined for completed ones that supersede failed ones, $4 how
-- many of these, $5 how many bytes params have at most that are compared: those of more are
-- null. Each part follows an index from its start. The literal limit of the jobs lets the
-- planner expect few.
with clock as materialized (
	select clock_timestamp() as now
), run as materialized (
	select e.id, e.definition_id, e.queue, e.worker, e.lease_expires_at, e.request, e.requested_at, e.requested_by, e.request_reason
	from courier.job_executions e where e.state = 'running' order by e.id limit $2::bigint
), lost as materialized (
	select r.* from run r, clock where r.lease_expires_at <= clock.now order by r.lease_expires_at, r.id limit $1::bigint
), asked as materialized (
	select a.*, k.kind, k.ord from (select 'pause' as request, 'pausing' as kind, 2 as ord union all select 'cancel', 'cancelling', 3) k
	cross join lateral (
		select r.* from run r, clock where (r.request = k.request or r.request = 'abort' and k.request = 'cancel') and r.lease_expires_at > clock.now order by r.requested_at, r.id limit $1::bigint
	) a
), passed as materialized (
	-- Rows of executions that have ended are removed later; see deadline/raise_overdue.
	select d.passed_at, d.execution_id, d.reason from courier.execution_deadlines d
	where d.passed_at is not null order by d.passed_at, d.execution_id limit 3 * $1::bigint
), overdue as materialized (
	select e.id, e.definition_id, e.queue, p.passed_at, p.reason, case when e.state = 'running' and e.current_step is not null then pg_catalog.json_build_object(
		'step', e.current_step, 'id', coalesce(e.current_step_id, ''), 'type', coalesce(e.current_step_type, ''), 'still', to_char(timezone('UTC', greatest(e.current_started_at,
			-- The progress of an attempt before this one has changed before it began.
			case when e.progress::json -> 'report'::text is not null then to_timestamp(0::float8) + (e.progress::json ->> 'changed'::text)::bigint::float8 * interval '1 microsecond' end
		)), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')) end as current
	from passed p cross join lateral (
		select x.id, x.definition_id, x.queue, x.state, x.current_step, x.current_step_id, x.current_step_type, x.current_started_at, x.progress
		from courier.job_executions x where x.id = p.execution_id limit 1
	) e
	where e.state in ('created', 'queued', 'running', 'paused') order by p.passed_at, e.id, p.reason limit $1::bigint
), failed as materialized (
	select e.id, e.definition_id, e.queue, e.version, e.ended_at, e.failure, case when octet_length(e.params) <= $5::int then e.params when e.params is null then '' end as params, e.options::json #>> array['labels', 'key'] as key,
		case when e.only_copies is null then e.workspace <> '' else e.only_copies <> '{}' end as holds
	from courier.job_executions e where e.state = 'failed' order by e.id desc limit $1::bigint
), job as materialized (
	select f.definition_id, min(f.id::text collate "C")::uuid as id from failed f
	group by f.definition_id order by max(f.id::text collate "C") desc limit 20
), completed as materialized (
	select j.definition_id, c.id, c.params, c.key from job j cross join lateral (
		select r.id, case when octet_length(r.params) <= $5::int then r.params when r.params is null then '' end as params, r.options::json #>> array['labels', 'key'] as key from (
			-- With "=" the planner would take the order of the ids of all jobs, or sort.
			select e.definition_id, e.id, e.state, e.params, e.options from courier.job_executions e
			where (e.definition_id, e.id) > (j.definition_id, j.id) and (e.definition_id, e.id) <= (j.definition_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
			order by e.definition_id desc, e.id desc limit $3::bigint
		) r
		where r.state = 'completed' order by r.definition_id desc, r.id desc limit $4::bigint
	) c
), same_params as materialized (
	select c.definition_id, c.params, max(c.id::text collate "C")::uuid as id from completed c where c.params is not null group by c.definition_id, c.params
), same_key as materialized (
	select c.definition_id, c.key, max(c.id::text collate "C")::uuid as id from completed c where c.key is not null group by c.definition_id, c.key
), incident as (
	select 1 as ord, 'lost' as kind, l.id, l.definition_id, l.queue, l.lease_expires_at as since, l.worker, '' as by, '' as text, '' as reason,
		null::text as failure, null::uuid as successor, null::integer as version, null::json as current
	from lost l
	union all
	select a.ord, a.kind, a.id, a.definition_id, a.queue, a.requested_at, a.worker, a.requested_by, a.request_reason, '', null, null, null, null from asked a
	union all
	select 4, 'overdue', o.id, o.definition_id, o.queue, o.passed_at, '', '', '', o.reason, null, null, null, o.current from overdue o
	union all
	select 5, 'failed', f.id, f.definition_id, f.queue, f.ended_at, '', '', '', f.failure::json ->> 'reason'::text, f.failure, greatest(p.id, k.id), f.version, null
	from failed f
	left join same_params p on p.definition_id = f.definition_id and p.params = f.params and p.id > f.id and not f.holds
	left join same_key k on k.definition_id = f.definition_id and k.key = f.key and k.id > f.id and not f.holds
)
select pg_catalog.json_build_object('at', to_char(timezone('UTC', clock.now), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), 'list', coalesce((
		select pg_catalog.json_agg(pg_catalog.json_build_object('kind', i.kind, 'execution_id', i.id, 'job', d.name, 'queue', i.queue, 'since', to_char(timezone('UTC', i.since), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), 'worker', i.worker,
				'by', i.by, 'text', i.text, 'reason', i.reason, 'failure', i.failure::json, 'superseded_by', i.successor,
				'version', i.version, 'latest', case when i.version is not null then d.latest_version end, 'current', i.current)
			order by i.ord, case when i.ord < 5 then i.since end, case when i.ord < 5 then i.id end, i.id desc)
		from incident i join courier.job_definitions d on d.id = i.definition_id
	), '[]'::json))::text
from clock
