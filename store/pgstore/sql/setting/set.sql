-- Changes a setting, or removes it. $1 key, $2 value, empty to remove it.
with gone as (
	delete from courier.system_settings where key = $1::text and $2::text = ''
)
insert into courier.system_settings (key, value) select $1::text, $2::text where $2::text <> ''
on conflict (key) do update set value = excluded.value
