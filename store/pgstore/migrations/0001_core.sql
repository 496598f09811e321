-- Jobs, executions, what their steps did, and the audit.
--
-- JSON is kept as text: byte by byte, whatever its numbers and however deep,
-- without being parsed again. Cast it to json or jsonb to look into it.

create table courier.job_definitions (
	id     integer generated always as identity primary key,
	kind   text not null, -- job, chain
	name   text collate "C" not null,
	latest integer not null, -- version
	unique (kind, name)
);

create table courier.job_definition_versions (
	definition_id integer not null references courier.job_definitions,
	version       integer not null check (version > 0),
	body          text not null,
	saved_by      text not null,
	saved_at      timestamptz not null,
	primary key (definition_id, version)
);

create table courier.system_settings (
	key   text collate "C" primary key,
	value text not null
);

-- What changes with every step stands together at the end of the row: Postgres
-- logs what lies between the first and the last byte that changed. Updates
-- while an execution runs change no column of an index, so they stay on the
-- page (HOT) while there is room on it.
create table courier.job_executions (
	id              uuid primary key,
	created_at      timestamptz not null,
	definition_id   integer not null, -- of the job
	version         integer not null,
	job_limit       integer not null,
	priority        smallint not null,
	queue           text collate "C" not null,
	step_types      text[] not null,
	limit_keys      text[] not null,
	timeout_ns      bigint not null, -- 0: none
	params          text,
	created_by      text not null,
	idempotency_key text collate "C",

	-- What changes with the state.
	due_at           timestamptz not null,
	state            text not null,
	state_since      timestamptz not null,
	attempt          integer not null,
	resumed          boolean not null default false, -- at least once
	resumed_from     text,
	started_at       timestamptz,
	timeout_from     timestamptz,
	ended_at         timestamptz,
	failure          text,
	workspace        text not null default '',
	disk_bytes       bigint not null default 0,
	worker           text not null default '',
	token            uuid,   -- of the present or last lease
	lease_first      bigint not null default 0, -- the numbers of the audit entries
	lease_last       bigint not null default 0, -- written under it; the last when it has ended
	reclaims         integer not null default 0,
	request          text,
	requested_by     text,
	lease_expires_at timestamptz,

	-- What changes with every step.
	seq               bigint not null, -- number of the last audit entry
	step              integer not null,
	loops             text,
	marks             text,
	current_step      integer, -- null: none is being executed
	current_attempt   integer,
	current_started   timestamptz,
	current_id        text,
	current_type      text,
	current_iteration text,
	current_total     text,
	current_worker    text, -- if it is a lost one

	check (state in ('created', 'queued', 'running', 'paused', 'completed', 'failed', 'cancelled')),
	check (state <> 'running' or lease_expires_at is not null and token is not null)
) with (
	fillfactor = 60,
	autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
	autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1
);

-- The order of claims.
create index job_executions_queued on courier.job_executions
	(queue, (-(priority::integer)), due_at, id) where state = 'queued';
-- All that is neither queued nor completed: what runs, and what needs people.
create index job_executions_open on courier.job_executions
	(state, id) where state in ('created', 'running', 'paused', 'failed', 'cancelled');
create index job_executions_job on courier.job_executions (definition_id, id);
create unique index job_executions_idempotency on courier.job_executions
	(definition_id, idempotency_key) where idempotency_key is not null;

-- One row for each attempt that ended. The key is in the order in which a
-- claim reads the latest record of each step.
create table courier.step_executions (
	execution_id      uuid not null,
	seq               bigint not null, -- that of its audit entry
	started_at        timestamptz not null,
	ended_at          timestamptz not null,
	bytes             bigint not null,
	execution_attempt integer not null,
	step              integer not null,
	attempt           integer not null,
	state             text not null,
	type              text not null,
	step_id           text,
	worker            text not null,
	iteration         text,
	total             text,
	outputs           text,
	files             text,
	reason            text,
	error             text,
	primary key (execution_id, execution_attempt, step, seq)
) with (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_freeze_min_age = 10000000);

-- One row for each write to an execution, which has from one to three entries,
-- numbered from seq: the attempt that ended, the one that was interrupted, the
-- change of the execution's state, the attempt that started.
create table courier.job_audit_log (
	execution_id uuid not null,
	seq          bigint not null,
	at           timestamptz not null,

	-- The attempt that ended is the record of the same number.
	ended_step    integer,
	ended_attempt integer, -- of the execution
	ended_began   boolean, -- false: it never started
	ended_elapsed bigint,  -- microseconds; null: since the record's started_at

	started_step      integer,
	started_attempt   integer,
	started_type      text,
	started_id        text,
	started_iteration text,

	-- step, id, type, iteration, attempt, elapsed, reason
	interrupted text,

	state_from    text,
	state_to      text,
	state_elapsed bigint, -- microseconds
	reason        text,
	error         text,
	by            text,
	worker        text,   -- null: nobody's, or that of the record
	primary key (execution_id, seq)
) with (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_freeze_min_age = 10000000);

-- The audit is only ever added to. What retention removes, it removes in a
-- transaction that says so.
create function courier.refuse_change() returns trigger language plpgsql as $$
begin
	if tg_op in ('DELETE', 'TRUNCATE') and current_setting('courier.retention', true) = 'on' then
		return null;
	end if;
	raise exception 'the audit log is append-only: % is refused', lower(tg_op)
		using errcode = 'insufficient_privilege', hint = 'Only retention removes entries, together with their executions.';
end
$$;

create trigger job_audit_log_append_only before update or delete or truncate on courier.job_audit_log
	for each statement execute function courier.refuse_change();
