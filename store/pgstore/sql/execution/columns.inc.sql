-- The columns of an execution e whose state this statement has changed. The last is the
-- instant of that.
\ir base_columns.inc.sql
, e.state_since
