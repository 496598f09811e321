-- The rights of roles on the schema "courier", as pgstore.Grants returns them; the
-- roles must exist (create role courier_engine login ...). See "Rights" in postgres.md.

-- An administrator, before pgstore.Migrate.
create schema if not exists "courier" authorization "courier_owner";

-- The owner, after each Migrate: an engine, or a client that enqueues and asks.
grant usage on schema "courier" to "courier_engine";
grant select on "courier"."schema_migrations" to "courier_engine";
grant select, insert, update on "courier"."job_definitions" to "courier_engine";
grant select, insert on "courier"."job_definition_versions" to "courier_engine";
grant select, insert, delete on "courier"."job_dependencies" to "courier_engine";
grant select, insert, update on "courier"."job_executions" to "courier_engine";
grant select, insert, update, delete on "courier"."execution_deadlines" to "courier_engine";
grant select, insert on "courier"."execution_history" to "courier_engine";
grant select on "courier"."step_executions" to "courier_engine";
grant select on "courier"."job_audit_log" to "courier_engine";
grant select on "courier"."opened_before" to "courier_engine";
grant select, insert, update, delete on "courier"."minute_figures" to "courier_engine";
grant select, insert on "courier"."trail" to "courier_engine";
grant select, insert on "courier"."journal" to "courier_engine";
grant select, insert, update, delete on "courier"."acknowledgements" to "courier_engine";
grant select, insert, update, delete on "courier"."system_settings" to "courier_engine";
grant select, insert, update, delete on "courier"."job_schedules" to "courier_engine";
grant select, insert, update, delete on "courier"."chain_schedules" to "courier_engine";
grant select, insert, update on "courier"."chain_executions" to "courier_engine";
grant select, insert, update on "courier"."chain_members" to "courier_engine";
grant select, insert, update, delete on "courier"."subscriptions" to "courier_engine";
grant select, insert, update, delete on "courier"."outbox_windows" to "courier_engine";
grant select, insert, update, delete on "courier"."outbox" to "courier_engine";
grant select, insert, update, delete on "courier"."monitors" to "courier_engine";
grant select, insert, update, delete on "courier"."monitor_files" to "courier_engine";
grant select, insert, update, delete on "courier"."expectations" to "courier_engine";
grant select, insert, update, delete on "courier"."arrivals" to "courier_engine";
grant select, insert, update, delete on "courier"."workers" to "courier_engine";

-- What removes executions.
grant usage on schema "courier" to "courier_retention";
grant select on "courier"."schema_migrations" to "courier_retention";
grant select on "courier"."job_definitions" to "courier_retention";
grant select, delete, update (ended_at) on "courier"."job_executions" to "courier_retention";
grant select, delete on "courier"."execution_history" to "courier_retention";
grant select, delete on "courier"."trail" to "courier_retention";
grant select, delete on "courier"."chain_members" to "courier_retention";
grant select, delete, update (ended_at) on "courier"."chain_executions" to "courier_retention";

-- What only reads.
grant usage on schema "courier" to "courier_reader";
grant select on "courier"."schema_migrations" to "courier_reader";
grant select on "courier"."job_definitions" to "courier_reader";
grant select on "courier"."job_definition_versions" to "courier_reader";
grant select on "courier"."job_dependencies" to "courier_reader";
grant select on "courier"."job_executions" to "courier_reader";
grant select on "courier"."execution_deadlines" to "courier_reader";
grant select on "courier"."execution_history" to "courier_reader";
grant select on "courier"."step_executions" to "courier_reader";
grant select on "courier"."job_audit_log" to "courier_reader";
grant select on "courier"."opened_before" to "courier_reader";
grant select on "courier"."minute_figures" to "courier_reader";
grant select on "courier"."trail" to "courier_reader";
grant select on "courier"."journal" to "courier_reader";
grant select on "courier"."acknowledgements" to "courier_reader";
grant select on "courier"."system_settings" to "courier_reader";
grant select on "courier"."job_schedules" to "courier_reader";
grant select on "courier"."chain_schedules" to "courier_reader";
grant select on "courier"."chain_executions" to "courier_reader";
grant select on "courier"."chain_members" to "courier_reader";
grant select on "courier"."subscriptions" to "courier_reader";
grant select on "courier"."outbox_windows" to "courier_reader";
grant select on "courier"."outbox" to "courier_reader";
grant select on "courier"."monitors" to "courier_reader";
grant select on "courier"."monitor_files" to "courier_reader";
grant select on "courier"."expectations" to "courier_reader";
grant select on "courier"."arrivals" to "courier_reader";
grant select on "courier"."workers" to "courier_reader";
