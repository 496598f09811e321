-- The columns of an execution e that is there. The last is the instant of its last change,
-- which is not in the row because every step would write it.
\ir base_columns.inc.sql
, e.params, e.repairs, e.only_copies, e.result,
greatest(e.state_since, e.current_started_at, (select h.at from courier.execution_history h where h.execution_id = e.id order by h.seq desc limit 1))
