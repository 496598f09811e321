-- Removes files. $1 monitor, $2 names.
delete from courier.monitor_files f where f.monitor = $1::text and f.name = any($2::text[])
