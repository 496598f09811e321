-- An execution of a chain that has not ended: what it is, its id and its state. $1 definition of
-- the chain.
select 'chain execution', c.id::text, c.state from courier.chain_executions c
where c.definition_id = $1::int and c.state in ('pending', 'running', 'paused')
order by c.id limit 1
