-- Which transactions are over: committed, or not. $1 transactions.
select x, pg_xact_status(x::xid8) from unnest($1::text[]) as x
