package chain

import (
	"sync"
	"time"

	"github.com/courierhq/courier"
)

// maxObserved is the maximum number of chain executions whose last event is kept.
const maxObserved = 1000

// observed has the last event of each chain execution that observers have received.
type observed struct {
	mu   sync.Mutex
	last map[courier.ChainExecutionID]moment
}

// A moment is an event, and when the chain execution ended, if it did. The time tells the
// failures of a retried chain execution apart.
type moment struct {
	event courier.EventType
	ended time.Time
}

// news records the last event of a chain execution, and reports whether it differs from the one
// before.
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

// moved gives observers the event of a chain execution that this engine has started or changed,
// unless they already have it. The state before the change is not known.
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
