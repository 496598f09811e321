-- Locks an expectation and returns its revision. $1 name.
select e.revision from courier.expectations e where e.name = $1::text for update
