-- Removes a subscription and its undelivered events, and events of subscriptions that
-- were removed at the same moment. $1 name. Returned is whether it existed.
with gone as (
	delete from courier.subscriptions s where s.name = $1::text returning s.id
), windows as (
	delete from courier.outbox_windows w where w.subscription_id = (select id from gone)
), rest as (
	delete from courier.outbox o
	where o.subscription_id = (select id from gone)
		or not exists (select from courier.subscriptions s where s.id = o.subscription_id)
)
select exists (select from gone)
