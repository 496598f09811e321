-- A page of monitors by name. $1 name of the only one (empty: all), $2 the name before
-- the first, $3 at most how many.
select m.name, m.lister, m.kind, m.target, m.body, m.saved_at, m.revision, m.status, m.reason, m.health, m.due_at
from courier.monitors m
where m.name > $2::text and ($1::text = '' or m.name = $1::text)
order by m.name limit $3::bigint
