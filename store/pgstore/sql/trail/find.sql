-- A page of the trail of a key, in falling order. $1 key, $2 the first value, $3 at most
-- how many; the filter has the rest.
select t.value, t.execution_id::text, t.seq
from courier.trail t
where t.key = $1::text and t.value >= $2::text /* filter */
order by t.key desc, t.value desc, t.execution_id desc, t.seq desc
limit $3::bigint
