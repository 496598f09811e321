package engine

// Jobs are the definitions of jobs. Its methods may be called by several
// goroutines; so for the other handles, which are small values that belong to
// their engine and need not be kept.
type Jobs struct{ e *Engine }

// Jobs returns the definitions of jobs in the engine's store.
func (e *Engine) Jobs() Jobs { return Jobs{e} }

// Executions answers questions about executions: what they are, what their steps
// have done, and what values are in scope. What changes an execution is a method
// of [Engine].
type Executions struct{ e *Engine }

// Executions returns the executions in the engine's store.
func (e *Engine) Executions() Executions { return Executions{e} }

// Chains are the definitions of chains, and their executions. The store must have
// the role [store.Chains] for the latter.
type Chains struct{ e *Engine }

// Chains returns the chains in the engine's store.
func (e *Engine) Chains() Chains { return Chains{e} }

// Schedules are what starts jobs and chains at given times. The store must have
// the role [store.Schedules]; started engines fire them.
type Schedules struct{ e *Engine }

// Schedules returns the schedules in the engine's store.
func (e *Engine) Schedules() Schedules { return Schedules{e} }

// Limits say how many executions may run at once. They hold for all engines on a
// store.
type Limits struct{ e *Engine }

// Limits returns the limits in the engine's store.
func (e *Engine) Limits() Limits { return Limits{e} }
