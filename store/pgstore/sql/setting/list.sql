-- A page of settings by name. $1 the beginning of their names, $2 the name before the
-- first, $3 at most how many.
select s.key, s.value from courier.system_settings s
where s.key > $2::text and starts_with(s.key, $1::text)
order by s.key limit $3::bigint
