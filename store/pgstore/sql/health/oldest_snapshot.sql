-- The oldest snapshot or transaction that vacuum in this database has to respect, except
-- for this statement's own: of a session, possibly of a standby, of a prepared
-- transaction, or of a replication slot. A session that has written counts by its own
-- transaction even without a snapshot; one that vacuums does not count.
select h.kind, h.pid, h.name, h.application, h.role, h.state, h.query, h.hidden,
	coalesce((extract(epoch from clock_timestamp() - h.since) * 1000000::numeric)::bigint, 0), h.age
from (
	select case when a.datname is null and coalesce(a.backend_type, 'walsender') = 'walsender' then 'standby' else 'session' end as kind, a.pid, '' as name,
		coalesce(a.application_name, '') as application, coalesce(a.usename::text, '') as role, coalesce(a.state, '') as state,
		case when a.query = '<insufficient privilege>' then '' else coalesce(a.query, '') end as query,
		coalesce(a.query = '<insufficient privilege>', false) as hidden, a.xact_start as since,
		greatest(age(a.backend_xid), age(a.backend_xmin)) as age
	from pg_catalog.pg_stat_activity a
	where a.pid <> pg_backend_pid() and (a.datname is null or a.datname = current_database())
		and (a.backend_xid is not null or a.backend_xmin is not null)
		and not exists (select from pg_catalog.pg_stat_progress_vacuum v where v.pid = a.pid)
	union all
	select 'prepared transaction', 0, p.gid, '', p.owner::text, '', '', false, p.prepared, age(p.transaction)
	from pg_catalog.pg_prepared_xacts p where p.database = current_database()
	union all
	select 'replication slot', coalesce(r.active_pid, 0), r.slot_name::text, '', '', '', '', false, null, age(r.xmin)
	from pg_catalog.pg_replication_slots r where r.xmin is not null
) h
order by h.age desc, h.since limit 1
