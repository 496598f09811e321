-- When the schema was created.
select m.applied_at from courier.schema_migrations m order by m.version limit 1
