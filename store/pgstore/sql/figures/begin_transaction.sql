-- Begins a transaction that counts figures. Its statement reads a small part of the history by
-- an index of summaries, of which the planner expects little, and is not compiled, which takes
-- longer than the statement.
select set_config('jit', 'off', true), set_config('enable_seqscan', 'off', true)
