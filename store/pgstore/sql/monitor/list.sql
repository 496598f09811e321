-- A page of monitors, in the order of their names.
-- $1 name of just one, or empty; $2 after which name, $3 at most.
select m.name, m.lister, m.kind, m.target, m.body, m.saved_at, m.revision, m.status, m.reason, m.health, m.due_at
from courier.monitors m
where m.name > $2::text and ($1::text = '' or m.name = $1::text)
order by m.name limit $3::bigint
