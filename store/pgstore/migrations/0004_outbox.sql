-- Subscriptions, and the events that are kept for them until they are delivered.

create table courier.subscriptions (
	id        integer generated always as identity primary key,
	name      text collate "C" not null unique,
	channel   text not null, -- a kind, or func: and the function's name
	events    text[] not null,
	jobs      text[] not null,
	chains    text[] not null,
	window_us bigint not null, -- 0: none
	disabled  boolean not null,
	reason    text not null,
	body      text not null
);

-- One row for each event and each subscription that wants it. Rows are taken by
-- what they are, not by their place in any order: one that is committed late is
-- just another that is due.
create table courier.outbox (
	subscription_id integer not null,
	execution_id    uuid not null,
	seq             bigint not null, -- of the audit entry; of a chain's events: which one it is
	event           text not null,
	job             text collate "C" not null, -- empty: an event of a chain, whose execution the row names
	chain           text collate "C" not null default '',
	version         integer not null,
	at              timestamptz not null,
	step            integer,
	step_id         text,
	step_type       text,
	iteration       text,
	step_attempt    integer,
	bytes           bigint,
	reason          text,
	error           text,
	by              text,

	state      text not null check (state in ('held', 'pending', 'failed')), -- held: waits for others of its window
	due_at     timestamptz not null, -- a lease is a later time
	attempts   integer not null default 0,
	token      uuid,
	last_error text,
	count      integer not null default 1,
	more       text, -- JSON
	primary key (subscription_id, execution_id, seq)
) with (
	fillfactor = 70,
	autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 1
);

create index outbox_pending on courier.outbox (subscription_id, due_at) where state = 'pending';
create index outbox_held on courier.outbox (subscription_id, job, chain, event) where state = 'held';
create index outbox_failed on courier.outbox (subscription_id, due_at) where state = 'failed';

-- Until when nothing more of an event of a job is delivered to a subscription.
create table courier.outbox_windows (
	subscription_id integer not null,
	job             text collate "C" not null,
	chain           text collate "C" not null,
	event           text not null,
	ends_at         timestamptz not null,
	primary key (subscription_id, job, chain, event)
);

-- How many events of the chain execution there have been, whether or not anybody
-- wanted to be told.
alter table courier.chain_executions add column events integer not null default 0;
