-- Removes an expectation, its arrivals, and the monitor by which it looks itself. $1 name, $2 that
-- of the monitor.
with removed as (
	delete from courier.expectations e where e.name = $1::text returning e.name
), days as (
	delete from courier.arrivals a where a.expectation = $1::text
), looks as (
	delete from courier.monitors m where m.name = $2::text
), files as (
	delete from courier.monitor_files f where f.monitor = $2::text
)
select removed.name from removed
