-- The columns of an execution e that is there. The last is the instant of its last change,
-- which is not in the row because every step would write it.
\ir base_columns.inc.sql
, greatest(e.state_since, (select a.at from courier.job_audit_log a where a.execution_id = e.id order by a.seq desc limit 1))
