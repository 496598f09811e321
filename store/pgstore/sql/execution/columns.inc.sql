-- The columns of an execution e whose state this statement has changed. The last is the
-- instant of that.
\ir base_columns.inc.sql
, e.params, e.repairs, e.only_copies, e.result, e.state_since
