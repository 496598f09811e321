-- The server's statistics of the tables. $1 schema.
select s.relname::text, s.n_live_tup, s.n_dead_tup, s.last_autovacuum, greatest(s.last_autovacuum, s.last_vacuum)
from pg_catalog.pg_stat_user_tables s
where s.schemaname = $1::text and s.relname in ('job_definitions', 'job_definition_versions', 'job_executions',
	'execution_deadlines', 'execution_history', 'system_settings', 'schema_migrations', 'job_schedules', 'chain_schedules',
	'chain_executions', 'chain_members', 'subscriptions', 'outbox', 'outbox_windows',
	'monitors', 'monitor_files', 'expectations', 'arrivals', 'job_dependencies', 'workers', 'trail', 'journal', 'minute_figures', 'acknowledgements')
order by s.relname
