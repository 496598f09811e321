-- Monitors of directories, and the files that they have seen.

create table courier.monitors (
	name         text collate "C" primary key,
	lister       text collate "C" not null, -- the name of what lists the directory
	kind         text collate "C" not null, -- of what it starts
	target       text collate "C" not null, -- its name; it may be gone
	body         text not null,             -- the definition
	saved_at     timestamptz not null,
	revision     bigint not null,           -- raised with every change but a lease

	status       text collate "C" not null,
	reason       text not null,             -- why it is in that status
	health       text not null,             -- JSON
	due_at       timestamptz,               -- when to look at the directory; null: never
	leased_until timestamptz                -- until when somebody is looking; null: nobody is
) with (
	fillfactor = 70,
	autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
	autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1
);

create index monitors_due on courier.monitors (due_at, name) where due_at is not null;

create table courier.monitor_files (
	monitor         text collate "C" not null,
	name            text collate "C" not null,
	size            bigint not null,
	modified        timestamptz,          -- null: unknown
	since           timestamptz not null, -- when size and time were first seen to be so
	done            boolean not null,     -- its done file was there
	gone_at         timestamptz,          -- when it was first missed; null: it is there
	appeared        integer not null,     -- how often it came into being
	handed          integer not null,     -- which of those was handed over last; 0: none
	handed_size     bigint not null,      -- size and time then
	handed_modified timestamptz,
	handed_at       timestamptz,          -- null: it was taken note of only
	execution       uuid,                 -- that got it
	primary key (monitor, name)
) with (
	fillfactor = 80,
	autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
	autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1
);
