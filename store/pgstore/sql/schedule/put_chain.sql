-- Creates or replaces the schedule of a chain.
insert into courier.chain_schedules
\ir put.inc.sql
