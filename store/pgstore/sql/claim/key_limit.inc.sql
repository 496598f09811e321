-- The limit of the key r.key: its own, or that of the longest pattern.
	case when (select most from key_most) ? r.key then ((select most from key_most) ->> r.key)::bigint
	else (select p.most from pattern p where starts_with(r.key, p.prefix) order by length(p.prefix) desc limit 1) end as most
