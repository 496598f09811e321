-- Removes a monitor and its files. $1 name.
with removed as (
	delete from courier.monitors m where m.name = $1::text returning m.name
), files as (
	delete from courier.monitor_files f where f.monitor = $1::text
)
select removed.name from removed
