-- Schedules of jobs and of chains. No name is in both tables.

create table courier.job_schedules (
	name            text collate "C" primary key,
	target          text collate "C" not null, -- what it starts, by name; it may be gone
	body            text not null,             -- the definition
	saved_at        timestamptz not null,
	revision        bigint not null,           -- raised with every change but a lease

	disabled        boolean not null,
	paused          boolean not null,
	waiting         boolean not null,          -- next_fire has come, and waits for executions to end
	failures        integer not null,          -- in a row
	reason          text not null,             -- why it is disabled or paused
	problem         text not null,             -- why it could not fire
	next_fire       timestamptz,               -- the tick; null: none
	due_at          timestamptz,               -- when to look at it, or when a lease ends; null: never
	last_fire       timestamptz,
	last_execution  uuid,
	open_executions uuid[] not null            -- started, and not seen to have ended
) with (
	fillfactor = 70,
	autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
	autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1
);

create index job_schedules_due on courier.job_schedules (due_at, name) where due_at is not null;

create table courier.chain_schedules (like courier.job_schedules including all);
