-- Removes the files that a monitor has seen. $1 name.
delete from courier.monitor_files f where f.monitor = $1::text
