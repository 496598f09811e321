-- Creates or replaces the schedule of a job.
insert into courier.job_schedules
\ir put.inc.sql
