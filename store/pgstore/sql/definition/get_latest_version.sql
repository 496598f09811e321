-- The latest version of a job. $1 name.
select latest_version from courier.job_definitions where kind = 'job' and name = $1::text
