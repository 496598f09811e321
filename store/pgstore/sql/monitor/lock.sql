-- Locks a monitor and returns its revision. $1 name.
select m.revision from courier.monitors m where m.name = $1::text for update
