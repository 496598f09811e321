package chain

import (
	"sync"
	"time"

	"github.com/courierhq/courier"
)

// maxObserved is of how many chain executions the last event is remembered.
const maxObserved = 1000

// observed has the last event of chain executions that observers were given.
type observed struct {
	mu   sync.Mutex
	last map[courier.ChainExecutionID]moment
}

// A moment is an event and when the chain execution had ended by it, if it had. A retry
// may fail again.
type moment struct {
	event courier.EventType
	ended time.Time
}

// news records the last event of a chain execution, and reports whether it is another
// one than before.
func (o *observed) news(id courier.ChainExecutionID, m moment) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last[id] == m {
		return false
	}
	if o.last == nil || len(o.last) >= maxObserved {
		o.last = make(map[courier.ChainExecutionID]moment)
	}
	o.last[id] = m
	return true
}

// moved gives observers the event of a chain execution that this engine has started or
// changed, unless they have it. The states before are not known.
func (v *Service) moved(x *Execution, started bool) {
	if !v.opt.Observed() {
		return
	}
	e := x.Event("", started && x.State == Running)
	if f := x.Failure; f != nil && e.Type == courier.EventChainFailed {
		e.Error = f.Message
	}
	if e.Type != "" && v.observed.news(x.ID, moment{e.Type, x.EndedAt}) {
		v.opt.Observe(e)
	}
}
