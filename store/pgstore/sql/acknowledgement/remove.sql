-- Removes an acknowledgement. $1 key.
delete from courier.acknowledgements a where a.key = $1::text
