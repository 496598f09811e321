-- Executions of chains.

-- What an execution is a member of. Most are of none.
alter table courier.job_executions
	add column chain_id uuid,
	add column chain_member text;

-- A chain execution is locked before the executions of its members, always.
create table courier.chain_executions (
	id              uuid primary key,
	created_at      timestamptz not null,
	definition_id   integer not null, -- of the chain
	version         integer not null,
	params          text,
	created_by      text not null,
	idempotency_key text collate "C",
	plan            text not null, -- JSON: members and what they depend on; it never changes

	-- What changes when a member ends.
	state      text not null,
	request    text,
	started_at timestamptz,
	ended_at   timestamptz,
	standing   text not null, -- a letter for each member

	check (state in ('pending', 'running', 'completed', 'failed', 'paused', 'cancelled'))
) with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);

create index chain_executions_chain on courier.chain_executions (definition_id, id);
create unique index chain_executions_idempotency on courier.chain_executions
	(definition_id, idempotency_key) where idempotency_key is not null;

-- The executions of members, as they will be created. The id is that of the
-- latest one.
create table courier.chain_members (
	chain_id      uuid not null,
	ord           integer not null,
	name          text not null,
	execution_id  uuid not null,
	definition_id integer not null, -- of the job
	version       integer not null,
	job_limit     integer not null,
	priority      smallint not null,
	queue         text collate "C" not null,
	step_types    text[] not null,
	limit_keys    text[] not null,
	timeout_ns    bigint not null,
	params        text,
	created_by    text not null,
	first_type    text,
	first_id      text,
	primary key (chain_id, ord)
);
