-- Executions that wait for those of other jobs.

-- Whether other jobs depend on a job: 0 no, 1 new executions are marked so, 2 and
-- those that matter of before are too. It never becomes less.
alter table courier.job_definitions add column upstream smallint not null default 0;

-- What the latest version of a job depends on.
create table courier.job_dependencies (
	definition_id integer not null, -- the job
	upstream_id   integer not null, -- that it depends on
	primary key (definition_id, upstream_id)
);

-- An execution that waits is in the state "waiting", which callers see as queued: so
-- it is in no index of what can be claimed.
alter table courier.job_executions
	add column upstream boolean, -- other jobs depend on that of the execution
	add column waits text[],     -- c, f or a, for what is accepted, and the name of a job; null once it was let through
	drop constraint job_executions_state_check,
	add constraint job_executions_state_check check (
		state in ('created', 'queued', 'waiting', 'running', 'paused', 'completed', 'failed', 'cancelled')
	) not valid; -- what is there has passed the stricter one
alter table courier.chain_members add column waits text[];

-- Besides what it had, all that waits: a further index would cost every statement.
drop index courier.job_executions_open;
create index job_executions_open on courier.job_executions
	(state, id) where state in ('created', 'waiting', 'running', 'paused', 'failed', 'cancelled');
create index job_executions_upstream on courier.job_executions (definition_id, created_at, id) where upstream;
