-- The guard of the audit names the schema of all that it uses: it runs with the
-- search path of whoever changes the table.
create or replace function courier.refuse_change() returns trigger language plpgsql as $$
begin
	if tg_op operator(pg_catalog.=) any (array['DELETE', 'TRUNCATE']) and pg_catalog.current_setting('courier.retention', true) operator(pg_catalog.=) 'on' then
		return null;
	end if;
	raise exception 'the audit log is append-only: % is refused', pg_catalog.lower(tg_op)
		using errcode = 'insufficient_privilege', hint = 'Only retention removes entries, together with their executions.';
end
$$;
