-- The tables of Courier.
--
-- JSON is kept as text, byte by byte, with any numbers and any depth, and is never
-- parsed again. Cast it to json or jsonb to look into it. Names of jobs, queues and
-- the like have collation "C": they are compared byte by byte.

-- Jobs, chains, deployments and calendars by name.
create table courier.job_definitions (
	id             integer generated always as identity primary key,
	kind           text not null, -- job, chain, deployment, calendar
	name           text collate "C" not null,
	latest_version integer not null,
	-- Whether other jobs depend on this one. 0: no. 1: yes, and new executions have
	-- has_dependents. 2: the latest execution of before has it too. It never decreases.
	dependents     smallint not null default 0,
	removed        boolean not null default false, -- the latest version removes it
	unique (kind, name)
);

-- The versions of a definition. A version never changes.
create table courier.job_definition_versions (
	definition_id integer not null references courier.job_definitions,
	version       integer not null check (version > 0),
	body          text not null, -- JSON; null removes the definition
	saved_by      text not null,
	saved_at      timestamptz not null,
	primary key (definition_id, version)
);

-- The jobs that the latest version of a job depends on.
create table courier.job_dependencies (
	definition_id integer not null, -- the job
	upstream_id   integer not null, -- the job that it depends on
	primary key (definition_id, upstream_id)
);

-- Settings such as job.concurrency_limit.
create table courier.system_settings (
	key   text collate "C" primary key,
	value text not null
);

-- Executions of jobs.
--
-- The columns that change with every step are at the end of the row, because
-- PostgreSQL logs the bytes from the first to the last one that changed. Updates of a
-- running execution change no column of an index, so they stay on the page (HOT)
-- while it has room.
create table courier.job_executions (
	id                uuid primary key,
	created_at        timestamptz not null,
	definition_id     integer not null, -- the job
	version           integer not null,
	concurrency_limit integer not null, -- of the job's version; 0: none
	priority          smallint not null,
	queue             text collate "C" not null,
	step_types        text[] not null,  -- a worker needs all of them; flow.finally: the version has a finally part
	limit_keys        text[] not null,
	timeout_ns        bigint not null,  -- 0: none
	params            text,             -- JSON
	created_by        text not null,
	idempotency_key   text collate "C",
	key_scope         text collate "C", -- in which the key is unique; null: the job
	chain_execution_id uuid,           -- null: the execution is no member of a chain
	chain_member      text,             -- the name of the member
	rerun_of          uuid,             -- the execution that is run again; null for most
	options           text,             -- JSON: labels, max_retries, trace; null for most
	held              boolean,          -- it was created in the state created, and not queued; null: no
	has_dependents    boolean,          -- other jobs depend on the job; null: no

	-- Columns that change with the state: first those that few changes change, then those of
	-- a claim, then those of every change.
	due_at             timestamptz not null,
	requested_at       timestamptz, -- of the request; see below
	attempt            integer not null, -- of the whole job
	failed_items       integer not null default 0, -- items of loops that failed and were not repaired
	reclaims           integer not null default 0, -- workers lost since a step last ended
	resumed            boolean not null default false, -- at least once
	waits_for          text[],      -- the unmet dependencies of a queued execution: c, f or a (completed, also failed, any end) and the job's name; null: it may be claimed
	resumed_from_state text,        -- null once a step has started since
	repairs            text,        -- JSON: what operators have changed; null for most
	request            text,        -- pause, cancel or abort, for the worker to carry out
	requested_by       text,
	request_reason     text,        -- it and requested_at stay after the request was carried out, and have no meaning then
	failure            text,        -- JSON
	result             text,        -- JSON; null for most
	finishing          text,        -- JSON: what is decided of an execution whose finally part has begun and not ended; null for others
	finally_error      text,        -- JSON: why the last finally part has failed; null for most
	workspace          text not null default '', -- the workspace that has its files; empty: none
	disk_bytes         bigint not null default 0,
	started_at         timestamptz,
	timeout_started_at timestamptz, -- the timeout counts from here
	first_step_type    text,        -- the step that the first claim starts; null after that
	first_step_id      text,
	worker             text not null default '', -- the holder of the present or last lease
	lease_token        uuid,        -- of the present or last lease
	lease_first_seq    bigint not null default 0, -- the first audit entry written under that lease
	only_copies        text,        -- JSON: files in the workspace that may exist nowhere else; {}: none; null: not known, or completed without
	lease_last_seq     bigint not null default 0, -- the last one under the lease, when it has ended
	heartbeat_at       timestamptz, -- the claim or the last renewal; null unless running
	lease_expires_at   timestamptz,
	state_since        timestamptz not null,
	ended_at           timestamptz,
	state              text not null,
	progress           text,        -- JSON: how far the present step is, and its cursor; null: nothing was reported

	-- Columns that change with every step, the ones that always do at the end.
	loops                   text,    -- JSON: the loops around the position
	retry_state             text,    -- JSON: counters of attempts and failures
	current_lost_worker     text,    -- the worker that started the step, if it was lost; then the start is in the history
	current_attempt         integer,
	current_step_type       text,
	current_iteration_total text,    -- JSON
	current_iteration       text,    -- JSON
	current_step_id         text,
	last_audit_seq          bigint not null,
	current_started_at      timestamptz,
	step                    integer not null, -- the position: the index of the next step, or of the current one
	current_step            integer, -- null: no step is running
	claim_waited_us         bigint,  -- how long the execution was queued before the claim; null: the claim is in the history, or there is none

	check (state in ('created', 'queued', 'running', 'paused', 'completed', 'failed', 'cancelled')),
	check (state <> 'running' or lease_expires_at is not null and lease_token is not null)
) with (
	fillfactor = 60,
	autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
	autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1
);

-- The claimable executions, in the order of claims.
create index job_executions_queued on courier.job_executions
	(queue, (-(priority::integer)), due_at, id) where state = 'queued' and waits_for is null;
-- The running executions, in the order in which they were claimed: a probe looks only at
-- those that were claimed since the last one; see claim/find_passed_over.
create index job_executions_running on courier.job_executions (state_since) where state = 'running';
-- All other executions but the completed and the claimable ones. Those that wait for other
-- jobs are in it because an index of their own would cost every statement.
create index job_executions_state on courier.job_executions
	(state, id) where state in ('created', 'paused', 'failed', 'cancelled') or waits_for is not null;
-- What holds files that may exist nowhere else.
create index job_executions_only_copies on courier.job_executions (id) where only_copies <> '{}';
create index job_executions_finally_error on courier.job_executions (id) where finally_error is not null;
create index job_executions_failed_items on courier.job_executions (id) where failed_items > 0;
create index job_executions_rerun_of on courier.job_executions (rerun_of, id) where rerun_of is not null;
create index job_executions_job on courier.job_executions (definition_id, id);
create index job_executions_dependents on courier.job_executions (definition_id, created_at, id) where has_dependents;
-- A key is unique within its scope, or else within its job.
create unique index job_executions_idempotency on courier.job_executions
	((case when key_scope is null then definition_id else 0 end), idempotency_key, coalesce(key_scope, '')) where idempotency_key is not null;

-- Deadlines of executions, which end nothing. A row is removed when its deadline has
-- passed, whether the execution has ended or not, and whether it still exists; that of one
-- which has not ended stays until it has, and is looked at again every 10 minutes.
create table courier.execution_deadlines (
	due_at       timestamptz not null, -- or when it is looked at again
	execution_id uuid not null,
	reason       text not null, -- max_duration, expected_by, expired
	passed_at    timestamptz,   -- the deadline, which has passed; null: it has not
	primary key (due_at, execution_id, reason)
) with (
	autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 1
);
create index execution_deadlines_passed on courier.execution_deadlines (passed_at, execution_id) where passed_at is not null;

-- The history of executions: a row for each step attempt that has ended, with the change
-- of the execution's state that the same write made, if any, and a row for each other write
-- that changed the state. It is append-only. The views step_executions and job_audit_log
-- show it by attempt and by entry.
--
-- The entries of an execution are numbered. seq is the number of the first entry that the
-- write of the row made: the attempt that ended, the attempt that was interrupted, the
-- change of the state, in this order.
--
-- Two entries are not written when they come to be: that of a claim and that of a step
-- that starts. They stand in the row of the execution until its next write, which has them
-- in its row, with the numbers before seq: first the claim, if claimed_at is set, then the
-- start. The start is that of the attempt which ended or was interrupted in the row, unless
-- start_before says that an earlier row has it; of another attempt it stands in started.
-- The creation of an execution is in no row: it is told from the columns of the execution
-- that never change.
create table courier.execution_history (
	-- Columns of fixed length come first, the longest before the others: so none is padded.
	execution_id      uuid not null,
	seq               bigint not null,
	at                timestamptz not null,
	state_elapsed_us  bigint,
	claimed_at        timestamptz, -- null: the claim is in an earlier row
	claim_waited_us   bigint,      -- how long the execution had been queued
	started_at        timestamptz, -- of the attempt that ended; null if none did
	elapsed_us        bigint,      -- of the attempt that ended; null: the time since started_at
	bytes             bigint,      -- null: 0
	execution_attempt integer not null,
	step              integer,     -- of the attempt that ended; null if none did
	attempt           integer,
	failed_loop       integer,     -- the flow.foreach whose item failed with this attempt, or the block whose rescue began; null for most
	began             boolean,     -- false: the attempt ended without having started
	start_before      boolean,     -- null: false
	rescued           boolean,     -- whether a rescue began; null: false
	worker            text,        -- which wrote the row; null: none did

	-- The change of the state.
	state_from        text,        -- null: there is none
	state_to          text,
	state_reason      text,
	state_error       text,
	by                text,        -- who asked for it; null: nobody

	-- What came before.
	before_worker     text,        -- which claimed the execution and started the step; null: worker
	started           text,        -- JSON: step, id, type, iteration, attempt, at
	interrupted       text,        -- JSON: step, id, type, iteration, attempt, elapsed, reason

	-- The attempt that ended.
	state             text,        -- null: completed
	step_type         text,
	step_id           text,
	step_worker       text,        -- null: worker
	iteration         text,        -- JSON
	iteration_total   text,        -- JSON
	outputs           text,        -- JSON
	files             text,        -- JSON
	reason            text,
	error             text,
	stack             text,        -- of a panic, or of a step that was cut off; null for most
	log               text,        -- what the step has logged; null: nothing
	events            text,        -- JSON: what the step has emitted; null for most
	item_labels       text,        -- JSON: of the items in which an attempt failed; null for most

	primary key (execution_id, seq)
) with (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_freeze_min_age = 10000000);

-- A claim reads the latest row of each step in the order of this index.
create index execution_history_steps on courier.execution_history
	(execution_id, execution_attempt, step, seq) where step is not null;
create index execution_history_failed_items on courier.execution_history
	(execution_id, seq) where failed_loop is not null;
-- For lists of attempts that failed or were skipped. Completed ones, which are most, have
-- no entry.
create index execution_history_not_completed on courier.execution_history
	(execution_id, seq) where state is not null;

-- Step attempts that have ended.
create view courier.step_executions as
select h.execution_id, h.seq, h.started_at, h.at as ended_at, coalesce(h.bytes, 0) as bytes, h.execution_attempt, h.step, h.attempt, coalesce(h.state, 'completed') as state, h.step_type, h.step_id,
	coalesce(h.step_worker, h.worker, '') as worker, h.iteration, h.iteration_total, h.outputs, h.files, h.reason, h.error, h.failed_loop, h.rescued, h.item_labels, h.stack, h.log, h.events
from courier.execution_history h where h.step is not null;

-- What rows of the history have of the time before them: a claim (claimed_at), and the
-- start of a step attempt (of, start_at).
create view courier.opened_before as
select h.execution_id, h.seq, h.execution_attempt, h.worker, h.before_worker, h.claimed_at, h.claim_waited_us,
	case when h.started is not null then h.started::jsonb when h.start_before then null
		when h.began then pg_catalog.jsonb_build_object('step', h.step, 'attempt', h.attempt, 'type', h.step_type, 'id', h.step_id, 'iteration', h.iteration::json)
		else h.interrupted::jsonb end as of,
	case when h.started is not null then ((h.started::json) ->> 'at'::text)::timestamptz
		when h.began then coalesce(h.at - h.elapsed_us::float8 * interval '1 microsecond', h.started_at)
		else h.at - ((h.interrupted::json) ->> 'elapsed'::text)::bigint::float8 * interval '1 microsecond' end as start_at
from courier.execution_history h
where h.claimed_at is not null or h.started is not null or h.began or h.interrupted is not null;

-- The audit: the entries of all executions. A row has up to three, numbered from seq: the
-- step attempt that ended, the step that was interrupted, the change of the execution's
-- state; or it has the step attempt that started. The step attempt that ended is the row of
-- step_executions with the same seq.
create view courier.job_audit_log as
select h.execution_id, h.seq, h.at, h.execution_attempt, h.step as ended_step, h.began as ended_started, h.elapsed_us as ended_elapsed_us,
	null::integer as started_step, null::integer as started_attempt, null::text as started_step_type, null::text as started_step_id, null::text as started_iteration,
	h.interrupted, h.state_from, h.state_to, h.state_elapsed_us, h.state_reason as reason, h.state_error as error, h.by, h.worker
from courier.execution_history h
where h.step is not null or h.interrupted is not null or h.state_to is not null
union all
select b.execution_id, b.seq - (b.of is not null)::integer - 1, b.claimed_at, b.execution_attempt, null, null, null, null, null, null, null, null,
	null, 'queued', 'running', b.claim_waited_us, null, null, null, coalesce(b.before_worker, b.worker)
from courier.opened_before b where b.claimed_at is not null
union all
select b.execution_id, b.seq - 1, b.start_at, b.execution_attempt, null, null, null,
	(b.of ->> 'step'::text)::integer, (b.of ->> 'attempt'::text)::integer, b.of ->> 'type'::text, b.of ->> 'id'::text, b.of ->> 'iteration'::text,
	null, null, null, null, null, null, null, coalesce(b.before_worker, b.worker)
from courier.opened_before b where b.of is not null
union all
select e.id, e.last_audit_seq - (e.current_step is not null and e.current_lost_worker is null)::integer, e.state_since, e.attempt, null, null, null, null, null, null, null, null,
	null, 'queued', 'running', e.claim_waited_us, null, null, null, e.worker
from courier.job_executions e where e.state = 'running' and e.claim_waited_us is not null
union all
select e.id, e.last_audit_seq, e.current_started_at, e.attempt, null, null, null, e.current_step, e.current_attempt, e.current_step_type, e.current_step_id, e.current_iteration,
	null, null, null, null, null, null, null, e.worker
from courier.job_executions e where e.state = 'running' and e.current_step is not null and e.current_lost_worker is null
union all
select e.id, 1, e.created_at, 1, null, null, null, null, null, null, null, null, null, null, case when e.held then 'created' else 'queued' end, null, null, null,
	case when e.created_by <> '' then e.created_by end, null
from courier.job_executions e;

-- For the figures of a minute. It has a summary of each 32 pages and no entry of a row. Autovacuum
-- adds the summaries of pages that are full. A checkpoint writes to it only in the first 32 pages
-- of the table, and where it fills space that retention has freed: 72 bytes of WAL for a row, which
-- is later than the summary says.
create index execution_history_at on courier.execution_history using brin (at) with (pages_per_range = 32, autosummarize = on);

-- What executions have done, by minute. Figures are counted from the history, and never fall.
create table courier.minute_figures (
	minute        timestamptz primary key, -- when it begins
	counted_at    timestamptz not null,
	completed     bigint not null, -- executions of jobs
	failed        bigint not null,
	files_in      bigint not null, -- received from connections
	bytes_in      bigint not null,
	files_out     bigint not null, -- sent to connections
	bytes_out     bigint not null,
	failed_items  bigint not null,
	rescued_items bigint not null,
	running       bigint not null, -- the most when it was counted
	queued        bigint not null
) with (fillfactor = 50);

-- By what people find executions: the names of files that steps have reported and of items
-- that have failed (key file), and labels. It is written together with what it refers to.
create table courier.trail (
	key          text collate "C" not null, -- file, or the name of a label
	value        text collate "C" not null, -- of a file: the last part of its path, in lower case
	execution_id uuid not null,
	seq          bigint not null,           -- of the step execution; 0: of a label
	primary key (key, value, execution_id, seq)
) with (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_freeze_min_age = 10000000);

-- The journal: who did what with what is no execution. It is append-only.
create table courier.journal (
	id           bigint generated always as identity primary key,
	at           timestamptz not null,
	by           text collate "C" not null,
	via          text not null,
	verb         text not null,
	kind         text collate "C" not null,
	name         text collate "C" not null,
	job          text not null,
	was          text, -- JSON
	now          text, -- JSON
	execution_id uuid,
	reason       text not null,
	outcome      text not null,
	of           bigint -- the entry that says that it was asked for; null: there is none
);

create index journal_name on courier.journal (kind, name, id);
create index journal_of on courier.journal (of) where of is not null;

-- What people have put out of sight for a time, of what needs somebody.
create table courier.acknowledgements (
	key     text collate "C" primary key, -- of the trouble
	title   text not null,                -- what it was then
	by      text not null,
	reason  text not null,
	at      timestamptz not null,
	until   timestamptz not null, -- it holds before this
	snoozed boolean not null      -- whatever is added to the trouble
);

-- The audit is append-only: the history, and what the row of an execution has of its
-- creation. Retention removes rows in a transaction that sets courier.retention. The function names the schemas of all that it uses: it runs with
-- the search path of whoever changes the table.
create function courier.refuse_change() returns trigger language plpgsql as $$
begin
	if tg_op operator(pg_catalog.=) any (array['DELETE', 'TRUNCATE']) and pg_catalog.current_setting('courier.retention', true) operator(pg_catalog.=) 'on' then
		return null;
	end if;
	raise exception 'the audit log is append-only: % is refused on %', pg_catalog.lower(tg_op), tg_table_name
		using errcode = 'insufficient_privilege', hint = 'Only retention removes entries, together with their executions, whose rows have the entry of their creation.';
end
$$;

create trigger execution_history_append_only before update or delete or truncate on courier.execution_history
	for each statement execute function courier.refuse_change();
create trigger job_executions_creation before update of id, created_at, created_by, held or delete or truncate on courier.job_executions
	for each statement execute function courier.refuse_change();

-- Schedules of jobs. A name is either in this table or in chain_schedules.
create table courier.job_schedules (
	name                 text collate "C" primary key,
	target               text collate "C" not null, -- the job or chain, by name; it may not exist
	body                 text not null,             -- JSON: the definition
	saved_at             timestamptz not null,
	revision             bigint not null,           -- increases with every change but a lease

	disabled             boolean not null,
	paused               boolean not null,
	waiting              boolean not null,          -- next_fire_at has passed, and open executions delay the firing
	consecutive_failures integer not null,
	reason               text not null,             -- why it is disabled or paused
	problem              text not null,             -- why it could not fire
	next_fire_at         timestamptz,               -- null: never
	due_at               timestamptz,               -- when an engine next looks at it, or when a lease ends; null: never
	last_fire_at         timestamptz,
	last_execution_id    uuid,
	open_execution_ids   uuid[] not null,           -- executions that are not known to have ended
	moves_from           timestamptz                -- ticks are not moved to this instant or an earlier one; null: there was none to move
) with (
	fillfactor = 70,
	autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
	autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1
);

create index job_schedules_due on courier.job_schedules (due_at, name) where due_at is not null;

-- Schedules of chains.
create table courier.chain_schedules (like courier.job_schedules including all);

-- Executions of chains. A transaction locks the chain execution before the executions
-- of its members.
create table courier.chain_executions (
	id              uuid primary key,
	created_at      timestamptz not null,
	definition_id   integer not null, -- the chain
	version         integer not null,
	params          text,             -- JSON
	created_by      text not null,
	idempotency_key text collate "C",
	key_scope       text collate "C", -- in which the key is unique; null: the chain
	plan            text not null,    -- JSON: the members and their dependencies; it never changes
	rerun_of        uuid,             -- the chain execution that is run again; null for most
	options         text,             -- JSON: labels, trace, of all members' executions; null for most

	-- Columns that change when a member ends.
	state         text not null,
	request       text,
	started_at    timestamptz,
	ended_at      timestamptz,
	member_states text not null, -- a letter for each member: p pending, s skipped, r running, u paused, c completed, f failed, x cancelled; a capital one: the chain asked for a pause
	event_count   integer not null default 0, -- events so far, whether or not somebody subscribed

	check (state in ('pending', 'running', 'completed', 'failed', 'paused', 'cancelled'))
) with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);

create index chain_executions_chain on courier.chain_executions (definition_id, id);
create index chain_executions_rerun_of on courier.chain_executions (rerun_of, id) where rerun_of is not null;
create unique index chain_executions_idempotency on courier.chain_executions
	((case when key_scope is null then definition_id else 0 end), idempotency_key, coalesce(key_scope, '')) where idempotency_key is not null;

-- The members of a chain execution, with the columns that their executions will have.
create table courier.chain_members (
	chain_execution_id uuid not null,
	ordinal            integer not null,
	name               text not null,
	execution_id       uuid not null,    -- of the latest execution, which may not exist yet
	definition_id      integer not null, -- the job
	version            integer not null,
	concurrency_limit  integer not null,
	priority           smallint not null,
	queue              text collate "C" not null,
	step_types         text[] not null,
	limit_keys         text[] not null,
	timeout_ns         bigint not null,
	max_duration_us    bigint not null,  -- after the execution is created; 0: none
	expected_by_us     bigint not null,  -- after the chain execution was created; 0: none
	params             text,
	created_by         text not null,
	first_step_type    text,
	first_step_id      text,
	waits_for          text[],
	primary key (chain_execution_id, ordinal)
);

-- Subscriptions to events.
create table courier.subscriptions (
	id        integer generated always as identity primary key,
	name      text collate "C" not null unique,
	channel   text not null,   -- a kind, or func: and the name of a function
	events    text[] not null,
	jobs      text[] not null, -- with chains and expected: only events of these; all three empty: all
	chains    text[] not null,
	expected  text[] not null, -- expectations: of their events: only those of these; empty: all
	window_us bigint not null, -- of the flood protection; 0: none
	disabled  boolean not null,
	disabled_at timestamptz,   -- null: it is not
	reason    text not null,   -- why it is disabled
	body      text not null    -- JSON: the definition
);

-- Events that have not been delivered: a row for each event and subscription. Workers
-- take the rows that are due; no order is kept, so a late commit does no harm.
create table courier.outbox (
	subscription_id integer not null,
	execution_id    uuid not null,            -- of a job, or of a chain if job is empty; of an expectation: the arrival, or an id of the event
	seq             bigint not null,          -- of the audit entry; of a chain: the number of the event
	event           text not null,
	job             text collate "C" not null, -- empty: an event of a chain
	chain           text collate "C" not null default '',
	version         integer not null,
	at              timestamptz not null,
	step            integer,
	step_id         text,
	step_type       text,
	iteration       text,                     -- JSON
	step_attempt    integer,
	bytes           bigint,
	reason          text,
	error           text,
	by              text,

	state       text not null check (state in ('held', 'pending', 'failed')), -- held: collected until the window ends
	due_at      timestamptz not null, -- the next attempt, or the end of a lease
	attempts    integer not null default 0,
	lease_token uuid,
	last_error  text,
	event_name  text,                       -- of an event that a step has emitted; the expectation of one of its events; null for others
	payload     text,                       -- JSON: of that event
	event_count integer not null default 1, -- events that the delivery stands for
	more_events text,                       -- JSON: some of the others
	primary key (subscription_id, execution_id, seq)
) with (
	fillfactor = 70,
	autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 1
);

create index outbox_pending on courier.outbox (subscription_id, due_at) where state = 'pending';
create index outbox_held on courier.outbox (subscription_id, job, chain, event) where state = 'held';
create index outbox_failed on courier.outbox (subscription_id, due_at) where state = 'failed';

-- Flood protection: until ends_at, further events of the kind are held.
create table courier.outbox_windows (
	subscription_id integer not null,
	job             text collate "C" not null,
	chain           text collate "C" not null,
	event           text not null,
	ends_at         timestamptz not null,
	primary key (subscription_id, job, chain, event)
);

-- Monitors of directories.
create table courier.monitors (
	name         text collate "C" primary key,
	lister       text collate "C" not null, -- the name of the lister
	kind         text collate "C" not null, -- of the target: job, chain; expectation: its look, which starts nothing
	target       text collate "C" not null, -- the job, chain or expectation, by name; it may not exist
	body         text not null,             -- JSON: the definition
	saved_at     timestamptz not null,
	revision     bigint not null,           -- increases with every change but a lease

	status       text collate "C" not null,
	reason       text not null,             -- of the status
	health       text not null,             -- JSON
	due_at       timestamptz,               -- the next poll of the directory; null: never
	leased_until timestamptz                -- an engine polls; null: none does
) with (
	fillfactor = 70,
	autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
	autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1
);

create index monitors_due on courier.monitors (due_at, name) where due_at is not null;

-- The files that a monitor has seen.
create table courier.monitor_files (
	monitor            text collate "C" not null,
	name               text collate "C" not null,
	size               bigint not null,
	modified_at        timestamptz,          -- null: unknown
	unchanged_since    timestamptz not null, -- when this size and time were first seen
	has_done_file      boolean not null,
	missing_since      timestamptz,          -- null: the file is there
	appearances        integer not null,     -- how often the file has come into being
	handed_appearance  integer not null,     -- the last appearance that started an execution; 0: none
	handed_size        bigint not null,      -- size and time at that moment
	handed_modified_at timestamptz,
	handed_at          timestamptz,          -- null: the file was recorded without an execution
	execution_id       uuid,                 -- the execution that got the file
	primary key (monitor, name)
) with (
	fillfactor = 80,
	autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
	autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1
);

create index monitor_files_since on courier.monitor_files (monitor, unchanged_since, name);

-- Files that are expected.
create table courier.expectations (
	name          text collate "C" primary key,
	monitor       text collate "C" not null, -- that sees the files, by name; empty: none does
	job           text collate "C" not null, -- whose steps receive the files; empty: none do
	prefix        text collate "C" not null, -- with which the names of the files begin
	body          text not null,             -- JSON: the definition
	saved_at      timestamptz not null,
	revision      bigint not null,           -- increases with every change but a lease

	seen_from     timestamptz not null,      -- the next look needs the files that were seen since
	arrivals_from date not null,             -- and the arrivals from this day on
	memory        text not null,             -- JSON
	due_at        timestamptz,               -- the next look; null: never
	leased_until  timestamptz                -- an engine looks; null: none does
) with (
	fillfactor = 70,
	autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
	autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1
);

create index expectations_due on courier.expectations (due_at, name) where due_at is not null;

-- The days of expectations.
create table courier.arrivals (
	expectation text collate "C" not null,
	day         date not null,
	id          uuid not null,             -- by which events name it
	state       text collate "C" not null,
	body        text not null,             -- JSON
	primary key (expectation, day)
) with (
	fillfactor = 70,
	autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
	autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1
);

create index arrivals_day on courier.arrivals (day desc, expectation) include (state);

-- The workers that claim. A worker registers itself with a claim, at most every 30 s.
create table courier.workers (
	name       text collate "C" primary key,
	workspace  text not null,
	queues     text[] not null,
	step_types text[] not null,
	slots      integer not null, -- executions that it runs at once
	version    text not null,    -- of the main module of its program
	started_at timestamptz,      -- by its own clock
	seen_at    timestamptz not null,
	draining   boolean not null  -- it is stopping, and claims nothing more
);
