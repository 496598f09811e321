-- The open transactions that have written executions. $1 only these, unless it is empty,
-- $2 the table of executions.
select distinct l.virtualtransaction
from pg_catalog.pg_locks l
where l.locktype = 'relation' and l.mode = 'RowExclusiveLock' and l.granted
	and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = current_database())
	and l.relation = $2::text::regclass
	and l.pid <> pg_backend_pid()
	and (pg_catalog.cardinality($1::text[]) = 0 or l.virtualtransaction = any($1::text[]))
