-- The workers that claim. Each notes itself with a claim, at most every 30 s.
create table courier.workers (
	name       text collate "C" primary key,
	workspace  text not null,
	queues     text[] not null,
	step_types text[] not null,
	seen_at    timestamptz not null
);
