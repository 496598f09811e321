-- Removes an expectation and its arrivals. $1 name.
with removed as (
	delete from courier.expectations e where e.name = $1::text returning e.name
), days as (
	delete from courier.arrivals a where a.expectation = $1::text
)
select removed.name from removed
