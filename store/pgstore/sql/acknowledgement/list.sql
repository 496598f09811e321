-- The acknowledgements that hold, and those that ended within $1 microseconds. $2 at most how
-- many.
select a.key, a.title, a.by, a.reason, a.at, a.until, a.snoozed
from courier.acknowledgements a
where a.until >= clock_timestamp() - $1::bigint::float8 * interval '1 microsecond'
order by a.key limit $2::bigint
